#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Why: which files are cached is what users set most. Each setting is seen in
# what a whole process does: the same bytes in any case, and how many of them
# came through the cache.
. "$(dirname "$0")/../lib/app.sh"
need python3

readonly bytes=300000
text() { base64 -w 0 /dev/urandom | head -c "$1"; }
mkdir -p logs tables
for file in tables/one.sst tables/two.sst logs/one.log; do
  text $bytes >$file
done
text 20000 >tables/small.sst
ln -s "$(command -v cat)" other-program

# served FILES_SERVED VARIABLE=VALUE... -- COMMAND...
# The command's output is what it is without the library, and so many files of
# $bytes bytes were read through the cache.
served() {
  local files=$1 settings=() expected found=0
  rm -f json
  shift
  while [ "$1" != -- ]; do settings+=("$1"); shift; done
  shift
  expected=$("$@")
  # Through a pipe: into a file cat(1) would copy without reading.
  (export "${settings[@]}"; preload "$PWD/json" "$@") 2>errors | dd bs=1M of=out status=none ||
    fail "${settings[*]}: exit status $?"
  [ "$(cat out)" = "$expected" ] || fail "${settings[*]}: other bytes"
  [ ! -s json ] || found=$(number json reads.bytes)
  [ "$found" = $((files * bytes)) ] ||
    fail "${settings[*]}: $found bytes through the cache, not of $files files"
  cat errors
}
# The same, and nothing is said.
quietly() { [ -z "$(served "$@" | tee said)" ] || fail "${*:2}: $(cat said)"; }

# cat(1) reads nothing else that could be cached.
all=(cat tables/one.sst tables/two.sst logs/one.log tables/small.sst)
settings() { quietly "$@" -- "${all[@]}"; }

settings 3 RACACHE=on
settings 2 "RACACHE_INCLUDE=$PWD/tables/*"
settings 1 "RACACHE_INCLUDE=/nowhere/*:$PWD/*/two.sst"
settings 0 "RACACHE_INCLUDE=/nowhere/*"
settings 2 "RACACHE_EXCLUDE=*.log"
settings 1 "RACACHE_EXCLUDE=*.log:*/one.*"
settings 1 "RACACHE_INCLUDE=$PWD/tables/*" "RACACHE_EXCLUDE=*/one.*"
settings 0 "RACACHE_EXCLUDE=*"
settings 3 "RACACHE_PROGRAMS=ca?"
settings 0 "RACACHE_PROGRAMS=!cat"
settings 0 RACACHE_PROGRAMS=db_bench:other-program
settings 0 RACACHE=off
settings 0 RACACHE_MIN_FILE=4M
settings 0 RACACHE_IO=off
settings 3 RACACHE_IO=threads
settings 3 RACACHE_MIN_FILE=100K RACACHE_MAX_ORDER=0 RACACHE_VERIFY=1
quietly 3 RACACHE_PROGRAMS=db_bench:other-program -- ./other-program "${all[@]:1}"

# A bad value costs a line that names it; the program runs as without it.
said=$(served 3 RACACHE_SIZE=lots RACACHE_MAX_ORDER=10 -- "${all[@]}")
for name in RACACHE_SIZE RACACHE_MAX_ORDER; do
  [ "$(grep -c "^racache: $name=" <<<"$said")" = 1 ] || fail "bad $name: $said"
done
[ "$(wc -l <<<"$said")" = 2 ] || fail "bad values: $said"

# A file system in memory is the kernel's, unless its files are asked for.
export -f text quietly served preload number fail
export bytes library
in_memory() {
  cd "$RIG" || exit 1
  failures=0
  text $bytes >one.sst
  quietly 0 RACACHE_INCLUDE= -- cat one.sst
  quietly 0 "RACACHE_EXCLUDE=/nowhere/*" -- cat one.sst
  quietly 1 "RACACHE_INCLUDE=$RIG/*" -- cat one.sst
  exit "$failures"
}
export -f in_memory
status=0
"$root/tests/lib/rig.sh" -s 64 tmpfs bash -c in_memory || status=$?
case $status in
  0) ;;
  77) [ "$failures" != 0 ] || skip "all held but for tmpfs, which cannot be mounted here" ;;
  *) fail "on tmpfs" ;;
esac
finish
