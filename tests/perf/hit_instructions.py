#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts the instructions of a hit besides the copy, and holds them to a
ceiling, so that nobody makes the hot path longer unseen. It is also the test
that the library works under valgrind.

    hit_instructions.py VICTIM WORK_FOLDER [--top]

Two runs under callgrind, with N and with 2N hits; their difference, without
the victim's own loop and without the copy, divided by N.
"""
import collections
import glob
import os
import re
import shutil
import subprocess
import sys

# What, call, bytes, most instructions. 15 of them ask the clock whether leases
# are still looked after (core/lease_watch.h); valgrind hides the vDSO, so here
# that is a system call, which it counts as one.
CASES = [
    ("4 KiB pread", "pread", 4096, 166),
    ("4 KiB read", "read", 4096, 172),
    ("512 B pread", "pread", 512, 166),
]
HITS = 8192
COPY = "racache_copy"


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def costs(path):
    """Own instructions by (object, function), from a callgrind file."""
    names = {"fn": {}, "ob": {}}
    at, function, skip_next = "", "", False
    total = collections.Counter()
    for line in open(path):
        line = line.rstrip("\n")
        match = re.match(r"(fn|ob|cfn|cob|fl|fi|fe|cfi|cfl)=\((\d+)\)(?: (.*))?", line)
        if match:
            kind, number, name = match.groups()
            table = names.get(kind[-2:])
            if table is None:
                continue
            if name:
                table[number] = name
            if kind == "fn":
                function = table[number]
            elif kind == "ob":
                at = table[number]
        elif line.startswith("calls="):
            skip_next = True  # the next line is what the callee cost
        elif re.match(r"[+*\d-]", line):
            if not skip_next:
                total[(at, function)] += int(line.split()[1])
            skip_next = False
    return total


def run(victim, work, call, size, count):
    out = os.path.join(work, f"callgrind.{call}.{size}.{count}")
    data = os.path.join(work, "data")
    stats = os.path.join(work, "stats.json")
    environment = dict(os.environ, LD_PRELOAD=os.environ["RACACHE_LIBRARY"],
                       RACACHE_STATS="json:" + stats, RACACHE_SIZE="16M")
    done = subprocess.run(
        ["valgrind", "-q", "--tool=callgrind", "--separate-threads=yes",
         f"--callgrind-out-file={out}",
         victim, call, str(size), str(count), data],
        env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{call} {size}: exit status {done.returncode}\n{done.stderr}")
    counted = costs(out + "-01")  # the victim's own thread
    for path in glob.glob(glob.escape(out) + "*"):
        os.unlink(path)
    return counted, stats


def main():
    victim, work = sys.argv[1:3]
    if shutil.which("valgrind") is None:
        skip("no valgrind")
    os.makedirs(work, exist_ok=True)
    with open(os.path.join(work, "data"), "wb") as data:
        data.write(os.urandom(1 << 20))
    import json
    worst = 0
    for what, call, size, ceiling in CASES:
        once, _ = run(victim, work, call, size, HITS)
        twice, stats = run(victim, work, call, size, 2 * HITS)
        reads = json.load(open(stats))["reads"]
        if reads["hits"] < 2 * HITS:
            skip("nothing is cached here: " + json.dumps(reads))
        twice.subtract(once)
        own = {key: n for key, n in twice.items()
               if not key[0].endswith("/" + os.path.basename(victim))
               and COPY not in key[1]}
        copied = sum(n for key, n in twice.items() if COPY in key[1])
        each = sum(own.values()) / HITS
        verdict = "ok" if each <= ceiling else "TOO MANY"
        print(f"{what} hit: {each:.1f} instructions besides the copy's "
              f"{copied / HITS:.0f} (at most {ceiling}): {verdict}")
        worst |= each > ceiling
        if "--top" in sys.argv:
            for key, n in sorted(own.items(), key=lambda item: -item[1])[:14]:
                if n >= HITS:
                    print(f"  {n / HITS:7.1f} {key[1]}")
    if os.path.exists(os.path.join(work, "data")):
        os.unlink(os.path.join(work, "data"))
    sys.exit(worst)


main()
