#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs what is missing, builds, runs all tests, and closes with the line
# "N passed, N failed, N skipped". The exit status is 0 if none failed.
#
#   tests/run.sh [--quick]
#
# The whole takes up to 15 minutes: every test on the release build, then the
# unit and stress tests with the sanitizers. --quick leaves out the sanitizers
# and all but the unit and hook tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null

quick=
case ${1:-} in
  --quick) quick=1 ;;
  '') ;;
  *) echo "usage: tests/run.sh [--quick]" >&2; exit 2 ;;
esac
started=$SECONDS
limit=${RACACHE_TEST_SECONDS:-3600}
cores=$(nproc)
unset LD_PRELOAD
for name in $(compgen -e RACACHE); do unset "$name"; done

say() { printf '\n== %s (%d s)\n' "$*" $((SECONDS - started)); }

build() {
  say "build: $1"
  cmake --preset "$1" >"build/$1.log" 2>&1 &&
    cmake --build --preset "$1" -- -j "$cores" >>"build/$1.log" 2>&1 && return
  tail -n 40 "build/$1.log"
  return 1
}

# Thread sanitizers of older compilers cannot live with as much randomness of
# addresses as newer kernels give.
steady=()
setarch -R true 2>/dev/null && steady=(setarch -R)

# Runs the tests of a build; the rest of the arguments choose among them. They
# have until the time limit; what has not run by then counts as failed.
reports=()
run() {
  local preset=$1 left=$((limit - SECONDS + started))
  shift
  say "test: $preset $*"
  [ $left -gt 5 ] || left=5
  reports+=("$preset")
  rm -f "build/$preset.xml"
  "${steady[@]}" ctest --test-dir "build/$preset" -N "$@" >"build/$preset.list"
  "${steady[@]}" ctest --test-dir "build/$preset" "$@" -j "$cores" \
    --output-on-failure --no-tests=error --output-junit "$PWD/build/$preset.xml" \
    --stop-time "$(date -d "+$left seconds" +%T)" || :
}

# One line for each test that did not pass, then the closing line.
summarize() {
  python3 - "$@" <<'PYTHON'
import re, sys
import xml.etree.ElementTree as xml

passed = failed = skipped = 0
for preset in sys.argv[1:]:
    listed = re.findall(r"^ *Test +#\d+: (\S+)", open(f"build/{preset}.list").read(), re.M)
    try:
        cases = xml.parse(f"build/{preset}.xml").getroot().findall("testcase")
    except (OSError, xml.ParseError):
        cases = []
    seen = {case.get("name"): case for case in cases}
    failed += not listed
    if not listed:
        print(f"failed:  {preset}: there is no test")
    for name in listed:
        case = seen.get(name)
        state = case.get("status") if case is not None else "not run"
        reason = case.find("skipped") if case is not None else None
        output = (case.findtext("system-out") or "").strip() if case is not None else ""
        last = output.splitlines()[-1] if output else ""
        if state == "run":
            passed += 1
        elif state == "disabled" or (
                reason is not None and "SKIP" in reason.get("message", "")):
            skipped += 1
            print(f"skipped: {preset}: {name}: {last.removeprefix('skipped: ')}")
        else:
            failed += 1
            print(f"failed:  {preset}: {name}: {state}")
print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(failed != 0)
PYTHON
}

scripts/install_packages.sh build tests
mkdir -p build
if ! build release; then echo "0 passed, 1 failed, 0 skipped"; exit 1; fi
if [ "$quick" ]; then
  run release -L '^(unit|hooks)$'
else
  run release
  for sanitizer in asan tsan; do
    if build $sanitizer; then
      run $sanitizer -L '^(unit|stress)$'
    else
      reports+=("$sanitizer")
      : >"build/$sanitizer.list"
    fi
  done
fi
say "summary"
summarize "${reports[@]}"
