#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs a victim without and with the library and compares what it printed and
# its exit status; without the library it must already be as expected.
#
#   run_pair.sh DIRECTORY COMMAND...
#
# From the environment: RACACHE_LIBRARY (the .so), HOOK_WORK (a folder on a
# disk file system; made anew), HOOK_SERVED=1 when the cache must have
# served at least one read, HOOK_HELPER (a further preload library).
# DIRECTORY/expected holds the output, "PASS" when there is no such file; with
# HOOK_COMPARE=1 only the last line, the rest must be alike.
set -u
directory=$1; shift
here=$HOOK_WORK
rm -rf "$here"; mkdir -p "$here" && chmod 1777 "$here" && cd "$here" || exit 2
if [ -f "$directory/expected" ]; then cp "$directory/expected" expected
else echo PASS >expected; fi
unset LD_PRELOAD

# $1: a name; $2: the preload list; then the command, in a folder of its own.
run() {
  name=$1 preload=$2; shift 2
  mkdir "$here/$name" && chmod 1777 "$here/$name" && cd "$here/$name" || exit 2
  timeout "${HOOK_TIMEOUT:-100}" env LD_PRELOAD="$preload" \
    RACACHE_LOG=error RACACHE_STATS="json:$here/$name.%p.json" "$@" \
    >"$here/$name.out" 2>"$here/$name.err" </dev/null
  echo $? >"$here/$name.status"
  cd "$here" || exit 2
}

# $1: which run, $2: what its output must be equal to.
judge() {
  status=$(cat "$1.status")
  if [ "$status$1" = 77without ]; then cat "$1.out"; echo skipped; exit 77; fi
  if ! cmp -s "$1.out" "$2" || [ "$status" != 0 ]; then
    echo "$1: status $status; output, errors:"
    head -c 3000 "$1.out"; head -c 3000 "$1.err"
    echo "expected:"; head -c 3000 "$2"
    exit 1
  fi
}

run without "${HOOK_HELPER:-}" "$@"
if [ "${HOOK_COMPARE:-0}" = 1 ]; then
  tail -n 1 without.out | cmp -s - expected && cp without.out expected
fi
judge without expected
run with "$RACACHE_LIBRARY${HOOK_HELPER:+ $HOOK_HELPER}" "$@"
judge with expected
if ! cmp -s without.err with.err; then
  echo "stderr differs:"; diff without.err with.err | head -n 20; exit 1
fi
if [ "${HOOK_SERVED:-0}" = 1 ]; then
  grep -Eqs '"hits": *[1-9]' with.*.json || {
    echo "the cache served no read"; exit 1; }
fi
rm -rf "$here"
