#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Why: RACACHE_VERIFY is there for the day on which the cache is wrong. That
# day is made here: a byte of the disk changes under a mounted file system,
# where no lease can notice. With RACACHE_VERIFY the program gets what the
# kernel reads, one line says so, and the file is the kernel's from then on.
if [ -z "${RIG:-}" ]; then
  exec "$(dirname "$0")/../lib/rig.sh" -s 600 ext4 "$0"
fi
RACACHE_WORK=$RIG/work
. "$(dirname "$0")/../lib/app.sh"
need python3 debugfs

readonly page=50 block_size=$(stat -f -c %S .)
readonly image=$(cat "/sys/block/$RIG_DEVICE/loop/backing_file")

# Reads the file, has the disk changed by the command that it is given, and
# prints what two further reads of the changed page find.
cat >reader.py <<'PYTHON'
import os, subprocess, sys

page, changer = int(sys.argv[1]) * 4096, sys.argv[2:]
fd = os.open("data", os.O_RDONLY)
old = [os.pread(fd, 4096, at) for at in range(0, 1 << 20, 4096)]
subprocess.run(changer, check=True,
               env={k: v for k, v in os.environ.items() if k != "LD_PRELOAD"})
for _ in range(2):
    found = os.pread(fd, 4096, page)
    if found == old[page // 4096]:
        print("old")
    else:
        print("new" if found == b"changed!" + old[page // 4096][8:] else "wrong")
others = [os.pread(fd, 4096, at) for at in range(0, 1 << 20, 4096)]
others[page // 4096] = old[page // 4096]
print("others", "same" if others == old else "differ")
PYTHON

# A fresh file, and the command that changes it beneath.
prepare() {
  rm -f data
  head -c 1048576 /dev/urandom >data
  chill data
  local block
  block=$(debugfs -R "bmap ${PWD#"$RIG"}/data $((page * 4096 / block_size))" \
    "/dev/$RIG_DEVICE" 2>/dev/null) && [ "${block:-0}" -gt 0 ] ||
    skip "the file's blocks cannot be told"
  cat >changer.sh <<CHANGER
printf 'changed!' | dd "of=$image" bs=1 seek=$((block * block_size)) conv=notrunc status=none
dd if=data iflag=nocache count=0 status=none
CHANGER
}

read_under() { # $1: RACACHE_VERIFY
  prepare
  timeout 120 env LD_PRELOAD="$library" RACACHE_VERIFY="$1" \
    RACACHE_STATS="text:$PWD/text" python3 reader.py $page bash changer.sh \
    >out 2>errors || fail "RACACHE_VERIFY=$1: exit status $?: $(cat errors)"
}

read_under 0
[ "$(tr '\n' ' ' <out)" = "old old others same " ] ||
  fail "unverified, the cache's bytes were not what was read: $(cat out)"
[ ! -s errors ] || fail "unverified: $(cat errors)"
! grep -q VERIFY text || fail "unverified: $(grep VERIFY text)"

read_under 1
[ "$(tr '\n' ' ' <out)" = "new new others same " ] ||
  fail "verified, but not the kernel's bytes: $(cat out errors)"
grep -qx "racache: verify: 4096 bytes at $((page * 4096)) of $PWD/data differ .*" \
  errors || fail "no line names the file: $(cat errors)"
[ "$(wc -l <errors)" = 1 ] || fail "more than one line: $(cat errors)"
grep -qE '^racache: VERIFY +1 of [0-9]+ ' text || fail "statistics: $(cat text)"
finish
