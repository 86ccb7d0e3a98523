#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Random touches of a mapping under MADV_RANDOM bring in little else.

Why: with read-around, databases that map their files fetched a hundred times
what they used; MADV_RANDOM is their only way out and has to keep working.
(RocksDB 9931, Pinot 12166, bolt 383, nano-node 4961.)
"""
import mmap
import os
import random

from support import MIB, check, from_device, make_cold, verdict

MEGABYTES, TOUCHES, PAGE = 256, 1000, 4096
PER_MIB = MIB // PAGE


def page(i):
    return i.to_bytes(8, "little") * (PAGE // 8)


make_cold("mapped", MEGABYTES, lambda i: b"".join(
    page(i * PER_MIB + j) for j in range(PER_MIB)))
fd = os.open("mapped", os.O_RDONLY)
view = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
view.madvise(mmap.MADV_RANDOM)
choice, before = random.Random(11), from_device()
for _ in range(TOUCHES):
    i = choice.randrange(MEGABYTES * PER_MIB)
    check(view[i * PAGE:i * PAGE + 8] == page(i)[:8], "wrong page %d" % i)
fetched = (from_device() - before) / (TOUCHES * PAGE)
print("%.2f bytes from the device for each byte of the touched pages" %
      fetched)
check(fetched < 4, "%.1f times too much" % fetched)
verdict()
