#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A file advised RANDOM that is then streamed is read in large pieces.

Why: databases open their tables with RANDOM and compact them from end to end
in 8 KiB steps: under the kernel each step is a device read of its own.
(TiKV 19721, Speedb 787, RocksDB 11887. The kernel alone fails it.)
"""
import os
import time

from support import MIB, check, make_cold, verdict

MEGABYTES = 64
STEP = 8192


def stream(advice, read):
    """Seconds for the whole file in small steps, from the device."""
    fd = os.open("table", os.O_RDONLY)
    if advice is not None:
        os.posix_fadvise(fd, 0, 0, advice)
    start = time.monotonic()
    for at in range(0, MEGABYTES * MIB, STEP):
        got = read(fd, at)
        if len(got) != STEP or got[0] != at >> 20 or got[-1] != at >> 20:
            check(False, "wrong bytes at %d" % at)
    took = time.monotonic() - start
    os.close(fd)
    return took


def ratio(name, read):
    # The content changes each time, so that no run profits from another.
    times = {}
    for advice in (None, os.POSIX_FADV_RANDOM):
        make_cold("table", MEGABYTES, lambda i: bytes([i]) * MIB)
        times[advice] = stream(advice, read)
    print("%s: NORMAL %.3f s, RANDOM %.3f s" %
          (name, times[None], times[os.POSIX_FADV_RANDOM]))
    return times[os.POSIX_FADV_RANDOM] / times[None]


def best(name, read):
    """Times move with the machine's load: the better of two tries."""
    first = ratio(name, read)
    return first if first < 2 else min(first, ratio(name, read))


for title, call in (("pread", lambda fd, at: os.pread(fd, STEP, at)),
                    ("read", lambda fd, at: os.read(fd, STEP))):
    check(best(title, call) < 2, title + ": RANDOM takes over twice as long")
verdict()
