#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A hint over a long range brings in all of it, not only its beginning.

Why: the kernel cuts a hint at max(read_ahead_kb, max_sectors_kb) and says
nothing; compactions that hinted megabytes then read the rest in small pieces.
(From reports against RocksDB, 12038 and 13253. The kernel alone fails it.)
"""
import ctypes
import os
import time

from support import MIB, check, from_device, make_cold, verdict

MEGABYTES = 48
STEP = 64 << 10


def hinted_read(advise):
    """Bytes from the device while reading what was hinted before."""
    name = "hinted"
    make_cold(name, MEGABYTES, lambda i: os.urandom(4096) * 256)
    fd = os.open(name, os.O_RDONLY)
    start = from_device()
    advise(fd)
    wait_until_quiet(start)
    before, total = from_device(), 0
    for at in range(0, MEGABYTES * MIB, STEP):
        total += len(os.pread(fd, STEP, at))
    os.close(fd)
    check(total == MEGABYTES * MIB, "read %d bytes" % total)
    return from_device() - before


def wait_until_quiet(start):
    """At most 5 s; until the device's count has stood still for 0.3 s."""
    last, still = start, time.monotonic()
    end = still + 5
    while time.monotonic() < end:
        time.sleep(0.05)
        now = from_device()
        if now != last:
            last, still = now, time.monotonic()
        elif now > start and time.monotonic() - still > 0.3:
            return


LIBC = ctypes.CDLL(None, use_errno=True)


def readahead(fd):
    check(LIBC.readahead(fd, ctypes.c_int64(0),
                         ctypes.c_size_t(MEGABYTES * MIB)) == 0, "readahead(2)")


WAYS = {
    "readahead(2) in one call": readahead,
    "WILLNEED in one call": lambda fd: os.posix_fadvise(
        fd, 0, MEGABYTES * MIB, os.POSIX_FADV_WILLNEED),
    "WILLNEED to the end": lambda fd: os.posix_fadvise(
        fd, 0, 0, os.POSIX_FADV_WILLNEED),
    "WILLNEED by 8 MiB": lambda fd: [os.posix_fadvise(
        fd, at * MIB, 8 * MIB, os.POSIX_FADV_WILLNEED)
        for at in range(0, MEGABYTES, 8)],
}
for way, hint in WAYS.items():
    more = hinted_read(hint)
    print("%s: %d KiB more from the device afterwards" % (way, more >> 10))
    check(more < MEGABYTES * MIB // 20, "%s did not cover the range" % way)
verdict()
