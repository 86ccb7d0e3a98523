# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# What the shell tests share; they source it first. It makes an empty folder,
# goes there, and removes it at the end. From the environment: RACACHE_LIBRARY
# (the .so) and RACACHE_WORK (the folder); without them, what the release
# build uses.
set -u -o pipefail
export LC_ALL=C.UTF-8
unset LD_PRELOAD
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
library=${RACACHE_LIBRARY:-$root/build/release/preload/libracache.so}
work=${RACACHE_WORK:-$root/build/release/tests/work}/$(basename "$0" .sh)
# Settings of whoever runs the tests must not change them.
for name in $(compgen -e RACACHE); do unset "$name"; done
failures=0
background=() # processes to end

skip() { echo "skipped: $*"; exit 77; }
fail() { echo "FAILED: $*"; failures=$((failures + 1)); }
finish() {
  [ $failures = 0 ] || { echo "$failures failures"; exit 1; }
  echo PASS
  exit 0
}
need() {
  local command
  for command in "$@"; do
    command -v "$command" >/dev/null || skip "no $command"
  done
}

# Runs a command under the library, for two minutes at most; the statistics go
# to the JSON file $1 (which may hold %p).
preload() {
  local json=$1
  shift
  rm -f "$json"
  timeout 120 env LD_PRELOAD="$library" RACACHE_STATS="json:$json" "$@"
}

# Ends a process that this script started, and waits for it.
end() { kill "$1" 2>/dev/null; wait "$1" 2>/dev/null || :; }

# Drops the kernel's cache of the files under $1, and of those only.
chill() {
  local file
  sync -f "$1"
  find "$1" -type f -size +0 -print0 | while IFS= read -r -d '' file; do
    dd "if=$file" iflag=nocache count=0 status=none
  done
}

# Prints the value at a path in a JSON file: number file.json reads.hits
number() {
  python3 - "$@" <<'PYTHON'
import json, sys
value = json.load(open(sys.argv[1]))
for key in sys.argv[2].split("."):
    value = value[key]
print(value)
PYTHON
}

# Prints the sum over several JSON files: total reads.hits FILES...
total() {
  python3 - "$@" <<'PYTHON'
import json, sys
group, key = sys.argv[1].split(".")
print(sum(json.load(open(name))[group][key] for name in sys.argv[2:]))
PYTHON
}

clean_up() {
  local process
  for process in "${background[@]}"; do end "$process"; done
  cd / && rm -rf "$work"
}

[ -e "$library" ] || { echo "FAILED: no $library"; exit 1; }
rm -rf "$work"
mkdir -p "$work"
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cd "$work" || exit 1
case $(stat -f -c %T .) in
  tmpfs | ramfs | fuseblk | fuse | nfs | cifs | smb2 | 9p | v9fs)
    skip "$(stat -f -c %T .) under $work is the kernel's; use a disk" ;;
esac
