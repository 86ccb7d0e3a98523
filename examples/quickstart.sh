#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Shows what racache does for a program that knows nothing of it: RocksDB's
# own benchmark reads a database of 250 MB through the kernel's page cache and
# through racache, in turn. Builds the library first; takes two minutes or so.
#
#   examples/quickstart.sh [--quick] [FOLDER]
#
# The database goes to a new folder below FOLDER (default: build/). With
# --quick it has 40 MB, and one round is measured: seconds, and rough figures.
# RACACHE_LIBRARY names a library that is built already: nothing is installed or
# built then.
set -euo pipefail
usage() { echo "usage: quickstart.sh [--quick] [FOLDER]" >&2; exit 2; }
rounds=3 # of each measurement; the table shows their medians
keys=250000
if [ "${1:-}" = --quick ]; then rounds=1 keys=40000; shift; fi
[ $# -le 1 ] || usage
case ${1:-} in -*) usage ;; esac
if [ -n "${1:-}" ]; then
  place=$(cd "$1" 2>/dev/null && pwd) || { echo "no folder $1" >&2; exit 2; }
fi
library=${RACACHE_LIBRARY:-}
if [ "$library" ]; then
  library=$(realpath -e "$library" 2>/dev/null) ||
    { echo "no library $RACACHE_LIBRARY" >&2; exit 2; }
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset LD_PRELOAD

if [ ! "$library" ]; then
  scripts/install_packages.sh build bench
  mkdir -p build
  echo "Building ..."
  { cmake --preset release &&
    cmake --build --preset release --target racache --target racache_cli; } \
    >build/release.log 2>&1 || { tail -n 30 build/release.log; exit 1; }
  library=$PWD/build/release/preload/libracache.so
fi

place=${place:-$PWD/build}
work=$(mktemp -d "$place/quickstart.XXXXXX")
trap 'cd / && rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cd "$work"
mkdir out

# A block cache of 8 MB, so that reads go to files; one thread, one seed.
bench=(db_bench "--db=$work/db" --num=$keys --value_size=1000
  --compression_type=none --cache_size=8388608 --seed=7)

echo "Making a database ..."
"${bench[@]}" --benchmarks=fillseq,flush,waitforcompaction --disable_wal \
  >out/fill 2>&1 || { cat out/fill; exit 1; }
sync -f .

# Makes the database cold: drops the kernel's cached pages of these files.
chill() {
  local file
  for file in db/*.sst; do dd "if=$file" iflag=nocache count=0 status=none; done
}

# Bytes that this shell's children, so far, had read from devices.
device_bytes() { awk '/^read_bytes/ { print $2 }' "/proc/$$/io"; }

# $1: kernel or racache; $2: a name for the results; $3: db_bench's workloads;
# $4: how many reads each.
measure() {
  local reader=$1 name=$2 before preload=
  [ "$reader" = kernel ] || preload=$library
  chill
  before=$(device_bytes)
  LD_PRELOAD=$preload RACACHE_STATS=json:$work/out/$reader.$name.json \
    "${bench[@]}" --use_existing_db --readonly --benchmarks="$3" --reads="$4" \
    >out/run 2>out/errors || { cat out/run out/errors; exit 1; }
  {
    grep -E '^[a-z]+ +:.*ops/sec' out/run
    echo "device $(($(device_bytes) - before))"
  } >>"out/$reader.$name"
}

echo "Measuring, $rounds rounds ..."
for _ in $(seq $rounds); do
  for reader in kernel racache; do
    measure $reader random readrandom $((keys * 2 / 25))
    measure $reader scan readseq $keys
    measure $reader warm readseq,readrandom $keys
  done
done

# Every result file holds, for each round, db_bench's lines and "device N".
python3 - <<'PYTHON'
import json, os, re
from statistics import median

WORKLOADS = (("random", "random reads, cold"), ("scan", "scan, cold"),
             ("warm", "scan, then random reads"))
print(f"\n{'workload':26}{'reader':10}{'ops/s':>12}{'device MB':>12}"
      f"{'hit rate':>10}")
for name, title in WORKLOADS:
    for reader in "kernel", "racache":
        rounds = open(f"out/{reader}.{name}").read().split("device ")
        speeds = [int(re.findall(r"(\d+) ops/sec", r)[-1]) for r in rounds[:-1]]
        device = [int(r.split()[0]) / 1e6 for r in rounds[1:]]
        rate = "-"
        if os.path.exists(f"out/{reader}.{name}.json"):
            reads = json.load(open(f"out/{reader}.{name}.json"))["reads"]
            rate = f"{100 * reads['hits'] / max(1, reads['calls']):.1f} %"
        print(f"{title:26}{reader:10}{median(speeds):12,.0f}"
              f"{median(device):12,.1f}{rate:>10}")
PYTHON
cat <<TEXT

Medians of $rounds rounds, in turn. Ops/s are those of the last part of a
workload; device MB and hit rate (of calls on cached files) those of the whole.
Every process begins cold: the kernel's cache would outlive it, racache's is
the process's own.

One more run, for racache's own statistics:
  LD_PRELOAD=$library \\
    db_bench --benchmarks=readseq,readrandom ...
TEXT
chill
LD_PRELOAD=$library RACACHE_STATS=text:$work/out/text "${bench[@]}" \
  --use_existing_db --readonly --benchmarks=readseq,readrandom --reads=$keys \
  >out/run 2>out/errors || { cat out/run out/errors; exit 1; }
if [ -s out/text ]; then cat out/text; else echo "none: nothing was cached. Is $place on a disk?"; fi
