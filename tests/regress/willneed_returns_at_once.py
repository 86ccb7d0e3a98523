#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A hint does not wait for the device, and does not hold up other reads.

Why: programs hint from the thread that serves requests and rely on it being
asynchronous, whatever the range. (liburing 1496, pg_prefaulter 46,
vmtouch 37.)
"""
import os
import time

from support import MIB, check, make_cold, verdict

MEGABYTES = 256
SIZE = MEGABYTES * MIB


def milliseconds(action):
    start = time.monotonic()
    result = action()
    return (time.monotonic() - start) * 1000, result


def hints(fd):
    for at, n in ((0, 0), (12345, 2 * SIZE), (SIZE - 5, 1), (SIZE + 1, 0)):
        os.posix_fadvise(fd, at, n, os.POSIX_FADV_WILLNEED)


make_cold("large", MEGABYTES, lambda i: bytes([i & 255]) * MIB)
fd = os.open("large", os.O_RDONLY)
hinting, _ = milliseconds(lambda: hints(fd))
far, data = milliseconds(lambda: os.pread(fd, 4096, SIZE - 9000))
near, first = milliseconds(lambda: os.pread(fd, 4096, 100))
print("hints %.1f ms, read at the far end %.1f ms, at the start %.1f ms" %
      (hinting, far, near))
check(hinting < 250, "the hints took %.0f ms" % hinting)
check(far < 500, "the read of another range took %.0f ms" % far)
check(data == bytes([(MEGABYTES - 1) & 255]) * 4096, "wrong bytes at the end")
check(first == bytes(4096), "wrong bytes at the start")
verdict()
