#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Advice that is changed on the way takes effect, each time.

Why: one file serves random lookups and, later, a merge from end to end;
advice that sticks at RANDOM makes the merge read page by page.
(Lucene 14463, 14408, 13985 and 15071.)
"""
import mmap
import os
import time

from support import MIB, check, make_cold, verdict

MEGABYTES, STEP = 48, 4096
RANDOM, SEQUENTIAL = 1, 2  # the same numbers for fadvise and madvise


def content(i):
    return bytes([i + 1]) * MIB


def by_descriptor(fd, advices):
    for advice in advices:
        os.posix_fadvise(fd, 0, 0, advice)
    return lambda at: os.pread(fd, STEP, at)[:1]


def by_mapping(fd, advices):
    view = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
    for advice in advices:
        view.madvise(advice)
    return lambda at: view[at:at + 1]


def seconds(way, advices):
    make_cold("both", MEGABYTES, content)  # a new file: nothing is warm
    fd = os.open("both", os.O_RDONLY)
    read = way(fd, advices)
    start = time.monotonic()
    for at in range(0, MEGABYTES * MIB, STEP):
        if read(at) != bytes([(at >> 20) + 1]):
            check(False, "wrong byte at %d" % at)
    took = time.monotonic() - start
    os.close(fd)
    os.unlink("both")
    return took


def compare(name, way):
    """After the switch, as fast as if it had always been SEQUENTIAL."""
    for _ in range(3):  # times move with the machine's load
        straight = seconds(way, [SEQUENTIAL])
        switched = seconds(way, [RANDOM, SEQUENTIAL])
        back = seconds(way, [RANDOM, SEQUENTIAL, RANDOM])
        print("%s: SEQUENTIAL %.3f s, after RANDOM %.3f s, and back %.3f s" %
              (name, straight, switched, back))
        if switched <= straight * 2 + 0.15:
            return
    check(False, name + ": the switch to SEQUENTIAL had no effect")


compare("descriptor", by_descriptor)
compare("mapping", by_mapping)
verdict()
