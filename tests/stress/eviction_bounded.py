#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Streams a file four times as large as RACACHE_SIZE and watches memory.

Why: a cache that is only bounded on paper takes the program down with it.
Growth may be the limit and 64 MiB, in whatever pattern the file is read; and
every byte must be right although its memory has been used many times over.
"""
import os
import random
import subprocess
import sys
import json
import shutil
import tempfile

LIMIT = 64 << 20
SLACK = 64 << 20
FILE = 4 * LIMIT
MIB = 1 << 20
BLOCK = 4096


def block(i):
    return i.to_bytes(8, "little") * (BLOCK // 8)


def expected(at, n):
    first, last = at // BLOCK, (at + n - 1) // BLOCK
    data = b"".join(block(i) for i in range(first, last + 1))
    return data[at - first * BLOCK:][:n]


def memory(field):
    for line in open("/proc/self/status"):
        if line.startswith(field + ":"):
            return int(line.split()[1]) << 10
    return 0


class Watch:
    """What the reading process measures of itself."""

    def __init__(self, fd):
        self.fd, self.wrong = fd, 0
        os.pread(fd, 1, 0)
        expected(0, MIB)
        self.base = self.top = memory("VmRSS")

    def read(self, at, n):
        got = os.pread(self.fd, n, at)
        self.wrong += got != expected(at, min(n, FILE - at))

    def look(self):
        self.top = max(self.top, memory("VmRSS"))


def stream(w, step):
    for at in range(0, FILE, step):
        w.read(at, step)
        if at % (16 * MIB) == 0:
            w.look()


def at_random(w, count, n):
    choice = random.Random(7)
    for i in range(count):
        w.read(choice.randrange(FILE - n), n)
        if i % 100 == 0:
            w.look()


def hinted(w):
    for at in range(0, FILE, 16 * MIB):
        os.posix_fadvise(w.fd, at, 16 * MIB, os.POSIX_FADV_WILLNEED)
        w.look()
    stream(w, MIB)


def reading_process(path):
    w = Watch(os.open(path, os.O_RDONLY))
    for name, run in (("stream, 1 MiB", lambda: stream(w, MIB)),
                      ("stream, 64 KiB", lambda: stream(w, 65536)),
                      ("random, 40 KiB", lambda: at_random(w, 2000, 40000)),
                      ("random, 4 KiB", lambda: at_random(w, 5000, 4096)),
                      ("all hinted", lambda: hinted(w)),
                      ("backwards", lambda: [w.read(at, MIB) for at in
                                             range(FILE - MIB, -1, -MIB)])):
        run()
        w.look()
        print("%-16s growth %4d MiB, wrong %d" %
              (name, (w.top - w.base) >> 20, w.wrong), flush=True)
    # The peak the kernel saw between our looks.
    grown = max(w.top, memory("VmHWM")) - w.base
    print("peak growth %d MiB, allowed %d" % (grown >> 20,
                                              (LIMIT + SLACK) >> 20))
    return 0 if w.wrong == 0 and grown <= LIMIT + SLACK else 1


def make(path):
    with open(path, "wb") as f:
        for at in range(0, FILE, MIB):
            f.write(expected(at, MIB))
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def evicted(path):
    if not os.path.exists(path):
        print("no statistics: nothing was cached")
        return False
    statistics = json.load(open(path))
    print("evicted %d folios; memory %s" % (statistics["folios"]["evicted"],
                                            statistics["memory"]))
    return statistics["folios"]["evicted"] > 0 and \
        statistics["memory"]["used"] <= LIMIT


def main():
    library = os.environ.get("RACACHE_LIBRARY")
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    folder = tempfile.mkdtemp(prefix="eviction-", dir=os.getcwd())
    try:
        make(folder + "/file")
        env.update(RACACHE_SIZE=str(LIMIT), RACACHE_MIN_FILE="1",
                   RACACHE_STATS="json:" + folder + "/stats")
        if library:
            env["LD_PRELOAD"] = os.path.abspath(library)
        status = subprocess.run(
            ["/usr/bin/python3", "-S", os.path.abspath(__file__), "--read",
             folder + "/file"], env=env).returncode
        if library and status == 0 and "BROKEN" not in os.environ and \
                not evicted(folder + "/stats"):
            status = 1
    finally:
        shutil.rmtree(folder)
    print("PASS" if status == 0 else "FAIL")
    return status


if __name__ == "__main__":
    if sys.argv[1:2] == ["--read"]:
        sys.exit(reading_process(sys.argv[2]))
    sys.exit(main())
