#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The library gets along with other preloaded libraries, in either order.

Why: an allocator that opens a file inside its first malloc and an interposer
that allocates inside its first open wait for each other for ever.
(jemalloc 443 and 329, fakechroot 21, nocache 5, libhugetlbfs 75.)
"""
import glob
import hashlib
import os
import subprocess

from support import check, plain_environment, verdict

ours = os.environ.get("LD_PRELOAD", "")
PLACES = ("/usr/lib/*-linux-gnu/", "/usr/lib/", "/usr/local/lib/")
NAMES = ("libjemalloc.so.2", "libmimalloc.so.2", "libtcmalloc_minimal.so.4",
         "libeatmydata.so", "libfakeroot/libfakeroot-sysv.so",
         "nocache/nocache.so", "nocache.so", "libfaketime.so.1")
others = sorted({path for place in PLACES for name in NAMES
                 for path in glob.glob(place + name)})
with open("input", "wb") as f:
    f.write(os.urandom(2_500_000))
DIGEST = hashlib.sha1(open("input", "rb").read()).hexdigest()
PYTHON = ("/usr/bin/python3 -S -c 'import sys, hashlib; "
          "print(hashlib.sha1(sys.stdin.buffer.read()).hexdigest())'")
COMMANDS = ("sha1sum", "cat | sha1sum", "dd bs=999 status=none | sha1sum",
            "sort >/dev/null; sha1sum input", PYTHON,
            "gzip -1 | gzip -d | sha1sum", "tail -c +1 input | sha1sum")


def run(preload, command):
    env = dict(plain_environment(), LD_PRELOAD=preload)
    with open("input", "rb") as stdin:
        try:
            p = subprocess.run(["bash", "-c", command], stdin=stdin, env=env,
                               capture_output=True, timeout=30)
        except subprocess.TimeoutExpired:
            return "hangs"
    words = p.stdout.decode().split()
    if p.returncode or not words or words[0] != DIGEST:
        return "status %d, %r, %r" % (p.returncode, words[:1], p.stderr[:200])
    return None


for other in others:
    for pair in (ours + " " + other, other + " " + ours):
        for line in COMMANDS:
            wrong = run(pair.strip(), line)
            check(wrong is None, "%s under %s: %s" % (line, pair, wrong))
print("%d libraries: %s" % (len(others), " ".join(map(os.path.basename,
                                                      others))))
verdict()
