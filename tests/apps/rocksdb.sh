#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Why: a key-value store is whom this is for. RocksDB's own benchmark runs to
# its end under the library, with checksums verified, and nearly every byte
# that it reads from its table files must come through the cache.
. "$(dirname "$0")/../lib/app.sh"
need db_bench strace python3

# 200 MiB in table files; a block cache too small to hide the files.
bench=(db_bench "--db=$PWD/db" --num=200000 --value_size=1000
  --compression_type=none --cache_size=8388608 --seed=7 --verify_checksum=1)

# $1: a name; $2: its exit status. The output must speak of no trouble.
judge_output() {
  local trouble
  [ "$2" = 0 ] || { fail "$1: exit status $2"; tail -n 5 "$1.out" "$1.err"; }
  if trouble=$(grep -iE 'error|corrupt|mismatch|assert.*fail' "$1.out"); then
    fail "$1: $trouble"
  fi
}

# Only a writer or a small size may have made a file the kernel's.
judge_statistics() {
  [ -s "$1.json" ] || { fail "$1: no statistics"; return; }
  [ "$(number "$1.json" reads.hits)" -gt 0 ] || fail "$1: no hits"
  python3 - "$1.json" <<'PYTHON' || fail "$1: files were the kernel's"
import json, sys
allowed = ("lease: EAGAIN", "lease: broken", "size: small")
reasons = json.load(open(sys.argv[1]))["files"]["kernel"]
wrong = {r: n for r, n in reasons.items() if n and not r.startswith(allowed)}
sys.exit(str(wrong) if wrong else 0)
PYTHON
}

# Bytes that calls on table files returned, by strace's account in the file $1.
table_bytes() {
  python3 - "$1" <<'PYTHON'
import re, sys
whole = re.compile(r"^\d+ +(?:pread64|read)\(\d+<[^>]*\.sst>.* = (\d+)$")
begun = re.compile(r"^(\d+) +(?:pread64|read)\(\d+<[^>]*\.sst>.*unfinished")
ended = re.compile(r"^(\d+) +<\.\.\. (?:pread64|read) resumed>.* = (\d+)$")
total, waiting = 0, set()
for line in open(sys.argv[1], errors="replace"):
    if m := whole.match(line):
        total += int(m[1])
    elif m := begun.match(line):
        waiting.add(m[1])
    elif (m := ended.match(line)) and m[1] in waiting:
        waiting.remove(m[1])
        total += int(m[2])
print(total)
PYTHON
}

trace() { # $1: the account's file
  local account=$1
  shift
  timeout 120 strace -f -y --seccomp-bpf -e trace=pread64,read,openat -o "$account" "$@"
}

# More than 95 % of $3 bytes must be among the $2 that came through the cache.
judge_share() {
  echo "$1: $2 bytes through the cache of $3 read from tables"
  [ "$3" -gt 1000000 ] || fail "$1: the trace saw too little"
  [ $(($2 * 100)) -gt $(($3 * 95)) ] || fail "$1: that is under 95 %"
}

# A benchmark from start to end under the library, with four threads;
# strace tells what the kernel still reads.
whole_run() {
  local name=$1 ours under=(timeout 120)
  shift
  [ ! "$traced" ] || under=(trace whole.trace)
  chill db
  rm -f "$name.json"
  "${under[@]}" env LD_PRELOAD="$library" RACACHE_STATS="json:$PWD/$name.json" \
    "${bench[@]}" --benchmarks="$name" --use_existing_db --threads=4 "$@" \
    >"$name.out" 2>"$name.err"
  judge_output "$name" $?
  judge_statistics "$name"
  grep -m 1 "^$name " "$name.out"
  [ "$traced" ] || return 0
  ours=$(number "$name.json" reads.bytes 2>/dev/null) || ours=0
  judge_share "$name, 4 threads" "$ours" $((ours + $(table_bytes whole.trace)))
}

# The same reads of one thread twice: without the library, as strace sees
# them; and with it, as the statistics tell. Read-only, so nothing else moves.
coverage() {
  local name=$1 table ours
  shift
  local command=("${bench[@]}" --benchmarks="$name" --use_existing_db
    --readonly --threads=1 "$@")
  trace alone.trace "${command[@]}" >"$name.out" 2>"$name.err" ||
    fail "$name: under strace: $?"
  table=$(table_bytes alone.trace)
  preload "$PWD/$name.json" "${command[@]}" >"$name.out" 2>"$name.err"
  judge_output "$name" $?
  judge_statistics "$name"
  ours=$(number "$name.json" reads.bytes 2>/dev/null) || ours=0
  judge_share "$name" "$ours" "$table"
}

"${bench[@]}" --benchmarks=fillseq,flush,waitforcompaction --disable_wal \
  >fill.out 2>fill.err || { cat fill.out fill.err; skip "no database"; }
strace -o /dev/null true 2>/dev/null && traced=1 || traced=

if [ "$traced" ]; then
  coverage readrandom --reads=3000
  coverage readseq --reads=60000
  coverage multireadrandom --reads=3000 --batch_size=16
  coverage seekrandom --reads=1000 --seek_nexts=10
fi
whole_run readrandom --reads=50000
whole_run readseq
whole_run multireadrandom --reads=20000 --batch_size=16
whole_run seekrandom --reads=10000 --seek_nexts=10
whole_run readwhilewriting --reads=30000
[ "$traced" ] || [ $failures != 0 ] || skip "strace may not trace here"
finish
