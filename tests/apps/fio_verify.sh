#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Why: fio marks every block it writes with a checksum and its place, so a
# single wrong or misplaced byte shows. It reads by every call there is, from
# one and from four threads, while another fio writes its own files beside.
. "$(dirname "$0")/../lib/app.sh"
need fio python3

engines="psync sync pvsync pvsync2 mmap io_uring"
mkdir data statistics
runs=0

# $1: a name; then fio's options. Verification errors end the job.
verified() {
  local name=$1
  shift
  runs=$((runs + 1))
  preload "$work/statistics/$name.%p.json" fio --name=job --directory=data \
    --size=32m --bs=16k --verify=crc32c --verify_fatal=1 --minimal "$@" \
    >out 2>err || { fail "$name: fio's exit status is $?"; head -n 5 err; }
  if grep -qi 'verify' err; then fail "$name: $(grep -im 1 verify err)"; fi
}

# Whether fio can use the engine here at all, without the library.
usable() {
  fio --name=probe --directory=data --size=64k --rw=read --ioengine="$1" \
    --minimal >/dev/null 2>&1
}

verified seq --filename=seq --rw=write --ioengine=psync --end_fsync=1
verified random --filename=random --rw=randwrite --ioengine=psync --end_fsync=1 \
  --size=8m

fio --name=beside --directory=data --size=32m --bs=16k --rw=randwrite \
  --rate=16m --time_based --runtime=180 --minimal >/dev/null 2>&1 &
background+=($!)

unusable=
for engine in $engines; do
  usable "$engine" || { unusable+=" $engine"; continue; }
  for threads in 1 4; do # one: a forked process; four: of one process
    how=(--readonly --ioengine="$engine" --numjobs=$threads)
    [ $threads = 1 ] || how+=(--thread)
    verified "$engine-seq-$threads" --filename=seq --rw=read "${how[@]}"
    verified "$engine-random-$threads" --filename=random --rw=randread \
      --size=8m --invalidate=0 --time_based --runtime=1 "${how[@]}"
  done
  verified "$engine-only" --filename=random --size=8m --rw=randwrite \
    --verify_only --ioengine="$engine"
  verified "$engine-written" --filename=mine --rw=write --numjobs=1 \
    --ioengine="$engine"
  verified "$engine-written-random" --filename_format='mine.$jobnum' \
    --rw=randwrite --thread --numjobs=4 --ioengine="$engine"
done
[ -d "/proc/${background[0]}" ] || fail "the fio beside ended early"

# A job that found the files the kernel's would prove nothing: each thread
# reads 2048 blocks in sequence, or the same 512 again and again.
for engine in psync sync pvsync pvsync2; do
  for job in seq-1 seq-4 random-1 random-4; do
    files=(statistics/"$engine-$job".*.json)
    [ -e "${files[0]}" ] || { fail "$engine-$job: no statistics"; continue; }
    calls=$(total reads.calls "${files[@]}")
    [ "$calls" -ge $((${job#*-} * 2048)) ] || [[ $job = random* ]] ||
      fail "$engine-$job: only $calls reads through the cache"
    [ "$(total reads.hits "${files[@]}")" -gt 0 ] || fail "$engine-$job: no hits"
  done
done
echo "$runs jobs; engines that fio cannot use here:${unusable:- none}"
[ -z "$unusable" ] || [ $failures != 0 ] || skip "not all engines:$unusable"
finish
