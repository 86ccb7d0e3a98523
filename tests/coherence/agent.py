# SPDX-License-Identifier: MIT
"""A reader that runs under the library and does what it is told.

start(library, ...) gives an Agent; each method is one thing the reading
process does. Without a library it runs on the kernel alone.
"""
import json
import os
import subprocess
import sys

import disks

CODE = r"""
import hashlib, os, sys
open_files = {}
for line in sys.stdin:
    what, *words = line.split()
    if what == "open":
        open_files[words[0]] = os.open(words[0], os.O_RDONLY)
        print("done", flush=True)
    elif what == "read":
        fd, h, at = open_files[words[0]], hashlib.sha1(), 0
        while True:
            b = os.pread(fd, 1 << 17, at)
            if not b: break
            h.update(b); at += len(b)
        print(at, h.hexdigest(), flush=True)
    elif what == "close":
        os.close(open_files.pop(words[0])); print("done", flush=True)
    elif what == "io":
        for l in open("/proc/self/io"):
            if l.startswith("read_bytes"): print(l.split()[1], flush=True)
"""


class Agent:
    def __init__(self, library, stats=None, **settings):
        env = disks.plain_environment()
        env.update(RACACHE_MIN_FILE="1", **settings)
        env["RACACHE_STATS"] = "json:" + stats if stats else "off"
        if library:
            env["LD_PRELOAD"] = os.path.abspath(library)
        self.stats = stats
        self.process = subprocess.Popen(
            ["/usr/bin/python3", "-S", "-c", CODE], env=env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, *words):
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if not answer:
            print("the reader died during: " + " ".join(words))
            sys.exit(1)
        return answer

    def open(self, path):
        self.ask("open", path)

    def close(self, path):
        self.ask("close", path)

    def read(self, path):
        """(bytes, sha1) of all of an open file."""
        size, digest = self.ask("read", path)
        return int(size), digest

    def read_once(self, path):
        self.open(path)
        result = self.read(path)
        self.close(path)
        return result

    def read_bytes(self):
        """What the kernel says this process had read from devices."""
        return int(self.ask("io")[0])

    def finish(self):
        """Ends the reader; its statistics, or None if it wrote none."""
        self.process.stdin.close()
        status = self.process.wait(20)
        if status != 0:
            print("the reader ended with %d" % status)
            sys.exit(1)
        if not self.stats or not os.path.exists(self.stats):
            return None
        with open(self.stats) as f:
            statistics = json.load(f)
        os.unlink(self.stats)
        return statistics
