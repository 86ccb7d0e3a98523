#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Prints a trace for `racache sim`: make_traces.py KIND CACHE_MIB LINES SEED.

Each is made for a cache of CACHE_MIB.
"""
import bisect
import random
import sys

kind = sys.argv[1]
mib, lines, seed = (int(a) for a in sys.argv[2:5])
choice = random.Random(seed)
PAGES = mib * 256
out = []


def event(name, page, pages, hint=""):
    line = "0 %s %d %d %s" % (name, page * 4096, pages * 4096, hint)
    out.append(line.rstrip())


def zipf(count, exponent=0.99):
    """Draws pages, popular ones all over the file."""
    sums, total = [], 0
    for i in range(count):
        total += 1 / (i + 1) ** exponent
        sums.append(total)
    place = list(range(count))
    choice.shuffle(place)
    return lambda: place[min(bisect.bisect_left(sums, choice.random() * total),
                             count - 1)]


def database(pages):
    event("db#0", 0, pages, "open")
    event("db#0", 0, 0, "random")


if kind == "zipf":
    draw = zipf(PAGES * 8)
    database(PAGES * 8)
    for _ in range(lines):
        event("db#0", draw(), 1)
elif kind == "scan_get":
    size, at = PAGES * 6, 0
    draw = zipf(size)
    database(size)
    for i in range(lines):
        if i % 4 == 3:
            event("db#1", at, 16)
            at = (at + 16) % size
        else:
            event("db#0", draw(), 1)
elif kind == "loop":
    sizes = []
    while sum(sizes) < PAGES * 1.4:
        sizes.append(choice.choice([16, 20, 40, 64, 100, 200, 300]))
    turn = 0
    while len(out) < lines:
        turn += 1
        for number, size in enumerate(sizes):
            for at in range(0, size, 32):
                event("f%d#%d" % (number, turn), at, min(32, size - at))
elif kind == "streams":
    position = [0] * 8
    for _ in range(lines):
        k = choice.randrange(8)
        event("s%d#0" % k, position[k], 16)
        position[k] = (position[k] + 16) % (PAGES * 2)
print("\n".join(out))
