#!/bin/sh
# SPDX-License-Identifier: MIT
# What the library exports is an interface: each name takes a call away from
# libc. The library, the table of hooks and the golden list must agree.
# After a wanted change: run.sh --update SOURCE_FOLDER.
set -u
here=$(dirname "$0")
rows() {
  sed -n 's/^RACACHE_[A-Z]*(\([A-Za-z0-9_]*\),.*/\1/p' \
    "$1/preload/hooks.def" | LC_ALL=C sort
}
if [ "${1:-}" = --update ]; then rows "$2" >"$here/../exports.txt"; exit; fi
source=$1
failed=0
work=${HOOK_WORK:?}; mkdir -p "$work"
nm -D --defined-only "$RACACHE_LIBRARY" | awk '{ print $3 }' |
  LC_ALL=C sort >"$work/library"
rows "$source" >"$work/table"
grep '@' "$work/library" && { echo "versioned names"; failed=1; }
diff "$here/../exports.txt" "$work/library" >"$work/diff" || {
  echo "exports.txt (<) and the library (>):"; cat "$work/diff"; failed=1; }
diff "$work/table" "$work/library" >"$work/diff" || {
  echo "hooks.def (<) and the library (>):"; cat "$work/diff"; failed=1; }
uniq -d "$work/table" | grep . && { echo "rows given twice"; failed=1; }
# A name that libc does not have is a mistake, or a newer libc's.
libc=$(ldd "$RACACHE_LIBRARY" | awk '/libc\.so\.6/ { print $3 }')
nm -D --defined-only "$libc" | sed 's/.* //; s/@.*//' |
  LC_ALL=C sort -u >"$work/libc"
newer=$(LC_ALL=C comm -23 "$work/library" "$work/libc" | grep -vx 'openat2')
[ -z "$newer" ] || { echo "not in libc: $newer"; failed=1; }
exit $failed
