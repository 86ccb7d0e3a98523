#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A file that is closed and opened again: warm if unchanged, else empty.

Why: programs reopen what they just closed, so the cache may keep a closed
file's bytes; but nobody holds a lease then, and it must notice every change
made meanwhile, even one that leaves size and mtime as they were.
"""
import hashlib
import os
import sys
import time

import disks
from agent import Agent

BYTES = (8 << 20) + 777
LIBRARY = os.environ.get("RACACHE_LIBRARY")
bad = []


def make(path):
    data = os.urandom(BYTES)
    with open(path, "wb") as f:
        f.write(data)
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return data


def told(data):
    return len(data), hashlib.sha1(data).hexdigest()


def expect(what, got, want):
    if got != want:
        bad.append("%s: %s, not %s" % (what, got, want))


def device_bytes(statistics):
    device = statistics["device"]
    return device["bytes"] + device["from_page_cache_bytes"]


def warm_after(base, pause):
    """Reads twice with a close between; what came from outside the cache."""
    path = base + "/warm"
    data = make(path)
    reader = Agent(LIBRARY, base + "/stats")
    expect("first read", reader.read_once(path), told(data))
    time.sleep(pause)
    before = reader.read_bytes()
    expect("second read", reader.read_once(path), told(data))
    again = reader.read_bytes() - before
    statistics = reader.finish()
    if again > BYTES // 20:
        bad.append("pause %.1f s: %d bytes from the device for a file that "
                   "was there" % (pause, again))
    if not LIBRARY:
        return
    if statistics is None:
        bad.append("no statistics: nothing was cached")
        return
    total = device_bytes(statistics)
    print("pause %.1f s: %d bytes brought in for %d" % (pause, total, BYTES))
    # Read-ahead may round up, but not to another copy of the file.
    if not BYTES * 9 // 10 <= total <= BYTES * 5 // 4:
        bad.append("pause %.1f s: %d bytes were brought in for a file of %d"
                   % (pause, total, BYTES))


def same_size(path, data, keep_mtime):
    s = os.stat(path)
    with open(path, "r+b") as f:
        f.seek(4_194_304)
        f.write(b"changed in between")
    if keep_mtime:
        os.utime(path, ns=(s.st_atime_ns, s.st_mtime_ns))
    return data[:4_194_304] + b"changed in between" + data[4_194_322:]


def longer(path, data):
    with open(path, "ab") as f:
        f.write(b"more")
    return data + b"more"


def shorter(path, data):
    os.truncate(path, 100_000)
    return data[:100_000]


def shorter_and_back(path, data):
    os.truncate(path, 100_000)
    os.truncate(path, len(data))
    return data[:100_000] + bytes(len(data) - 100_000)


def mapped(path, data):
    import mmap
    with open(path, "r+b") as f:
        m = mmap.mmap(f.fileno(), 0)
        m[4096:4103] = b"mapping"
        m.close()
    return data[:4096] + b"mapping" + data[4103:]


def replaced(path, data):
    new = os.urandom(len(data))
    with open(path + ".new", "wb") as f:
        f.write(new)
    os.rename(path + ".new", path)
    return new


CHANGES = (
    ("same size", lambda p, d: same_size(p, d, False)),
    ("same size, mtime set back", lambda p, d: same_size(p, d, True)),
    ("longer", longer),
    ("shorter", shorter),
    ("shorter and back", shorter_and_back),
    ("store through a mapping", mapped),
    ("renamed over", replaced),
)


def changed(base, number, name, change, pause):
    """One reader, one change between its close and its next open."""
    path = "%s/changed%d" % (base, number)
    data = make(path)
    reader = Agent(LIBRARY)
    expect(name + ": before", reader.read_once(path), told(data))
    time.sleep(pause)
    data = change(path, data)
    expect(name + ": after", reader.read_once(path), told(data))
    data = change(path, data)  # and at once again
    expect(name + ": twice", reader.read_once(path), told(data))
    time.sleep(1.5)            # the reader has let go by now
    data = change(path, data)
    expect(name + ": thrice", reader.read_once(path), told(data))
    reader.finish()


with disks.folder() as here:
    for seconds in (0.0, 0.5, 2.5):
        warm_after(here, seconds)
    for i, (title, change_it) in enumerate(CHANGES):
        changed(here, i, title, change_it, 0.0 if i % 2 else 1.5)
for line in bad:
    print(line)
print("FAIL" if bad else "PASS")
sys.exit(bool(bad))
