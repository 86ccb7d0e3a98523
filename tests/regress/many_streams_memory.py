#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A thousand files begun at the same time do not cost a thousand windows.

Why: a merge over very many inputs with megabytes of readahead each was
killed for its memory before it began. (RocksDB 11809 and 9187.)
"""
import os
import resource

from support import MIB, check, verdict

STREAMS, PIECE, ROUNDS = 1000, 16384, 4
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))


def resident():
    for line in open("/proc/self/status"):
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) >> 10
    return 0


pattern = os.urandom(PIECE)
for i in range(STREAMS):
    with open("input%d" % i, "wb") as f:
        f.write(pattern * (MIB // PIECE))
before = resident()
streams = [os.open("input%d" % i, os.O_RDONLY) for i in range(STREAMS)]
for turn in range(ROUNDS):
    for fd in streams:
        got = os.read(fd, PIECE) if turn % 2 else \
            os.pread(fd, PIECE, turn * PIECE)
        check(got == pattern, "wrong bytes in round %d" % turn)
grown = resident() - before
print("%d streams of %d KiB: %d MiB more memory" %
      (STREAMS, ROUNDS * PIECE >> 10, grown))
check(grown < 700, "%d MiB" % grown)
verdict()
