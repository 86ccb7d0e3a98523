#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Files that end anywhere: reads before, across, at and past the end.

Why: an aligned read of the last block comes back short; engines retried it
from an unaligned place (EINVAL), or for ever. The file then grows, shrinks
and grows again, and each read must show exactly what is there.
(RocksDB 6853 and 10368, qdrant 8466, agave 9395.)
"""
import os
import signal

from support import check, verdict

signal.alarm(150)  # a hang is a failure too
NOISE = os.urandom(5_500_000)
SIZES = (0, 1, 511, 512, 513, 4095, 4096, 4097, 65535, 65536, 65537, 131071,
         262144, 2097151, 2097152, 2097153, 5000001)
LENGTHS = (1, 511, 512, 4096, 4097, 65536, 1 << 20, 3 << 20)


def offsets(size):
    near = (0, 1, size // 2, size, size + 1, size + 4096, 1 << 40)
    below = (size - d for d in (1, 512, 513, 4095, 4096, 4097, 65536))
    return sorted({at for at in (*near, *below) if at >= 0})


def read_around(fd, data):
    size = len(data)
    for at in offsets(size):
        for n in LENGTHS:
            where = "size %d, %d bytes at %d" % (size, n, at)
            check(os.pread(fd, n, at) == data[at:at + n], "pread: " + where)
            parts = [bytearray(min(n, 77)), bytearray(n)]
            got = os.preadv(fd, parts, at)
            want = data[at:at + len(parts[0]) + n]
            check(got == len(want) and b"".join(parts)[:got] == want,
                  "preadv: " + where)


def read_through(fd, data, step):
    os.lseek(fd, 0, os.SEEK_SET)
    pieces = []
    while True:
        piece = os.read(fd, step)
        if not piece:
            break
        pieces.append(piece)
    check(b"".join(pieces) == data, "read by %d, size %d" % (step, len(data)))
    check(os.read(fd, step) == b"", "bytes after the end")


def grow_and_shrink(fd, writer, size):
    """The position of fd is at the end."""
    os.pwrite(writer, b"one line", size)
    check(os.read(fd, 100) == b"one line", "read misses growth at %d" % size)
    check(os.pread(fd, 100, size) == b"one line", "pread misses growth")
    check(os.read(fd, 100) == b"", "more than has grown")
    half = size // 2
    os.ftruncate(writer, half)
    check(os.pread(fd, 100, half) == b"", "shrinking unseen at %d" % size)
    check(os.read(fd, 100) == b"", "read past the new end")
    os.ftruncate(writer, size + 10000)
    want = bytes(size + 10000 - half)
    check(os.pread(fd, len(want) + 50, half) == want,
          "old bytes instead of zeros, size %d" % size)


for length in SIZES:
    content = NOISE[:length]
    with open("ends", "wb") as f:
        f.write(content)
    reader = os.open("ends", os.O_RDONLY)
    read_around(reader, content)      # nobody can write to it yet
    read_through(reader, content, 70001)
    read_through(reader, content, 4096)
    writing = os.open("ends", os.O_RDWR)
    read_around(reader, content)
    read_through(reader, content, 70001)
    grow_and_shrink(reader, writing, length)
    os.close(reader)
    os.close(writing)
verdict()
