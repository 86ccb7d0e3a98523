#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The first write to a file of an overlay's lower layer copies it up.

Why: from then on the name is another file below, and a lease taken on the
old one would see no change. What a descriptor opened before shows is up to
the kernel; with the library it has to be the same.
"""
import hashlib
import os
import sys

import disks
from agent import Agent

LIBRARY = os.environ.get("RACACHE_LIBRARY")


def told(data):
    return [len(data), hashlib.sha1(data).hexdigest()]


def states(library, path, lower):
    """Old descriptor and new open, before and after a write by another."""
    data = bytes(range(256)) * 4000
    with open(lower, "wb") as f:
        f.write(data)
    reader = Agent(library)
    reader.open(path)
    seen = [list(reader.read(path)) == told(data)]
    with open(path, "r+b") as f:
        f.write(b"copied up")
    new = b"copied up" + data[9:]
    old_fd = list(reader.read(path))
    seen.append("old" if old_fd == told(data)
                else "new" if old_fd == told(new) else "neither")
    reader.open(path)
    seen.append(list(reader.read(path)) == told(new))
    reader.finish()
    return seen


with disks.overlaid() as mount_point:
    base = os.path.dirname(mount_point)
    kernel = states(None, mount_point + "/a", base + "/lower/a")
    cached = states(LIBRARY, mount_point + "/b", base + "/lower/b")
print("kernel %s, library %s" % (kernel, cached))
ok = kernel == cached and kernel[0] and kernel[2]
print("PASS" if ok else "FAIL")
sys.exit(not ok)
