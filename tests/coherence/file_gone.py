#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What the program let go of must be let go of.

Why: a cache holds files open on its own behalf; if it holds on after the
program's last close, a deleted file goes on filling the disk and the file
system cannot be unmounted. usage: file_gone.py FILESYSTEM [--cached]
With --cached it is a failure if the file was not in the cache at all.
"""
import os
import sys
import time

import disks
from agent import Agent

MEGABYTES = 64
SECONDS = 2.0
LIBRARY = os.environ.get("RACACHE_LIBRARY")
bad = []


def free_space(point):
    disks.call("sync", "-f", point)  # btrfs frees at its next commit
    s = os.statvfs(point)
    return s.f_bavail * s.f_frsize


def make(path):
    with open(path, "wb") as f:
        for _ in range(MEGABYTES):
            f.write(os.urandom(1 << 20))
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def within(seconds, condition):
    """Seconds until the condition holds, or None."""
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        if condition():
            return time.monotonic() - start
        time.sleep(0.02)
    return None


def expect(what, took):
    print("%s: %s" % (what, "%.2f s" % took if took is not None else "NO"))
    if took is None:
        bad.append(what)


def expect_space(what, point, before):
    wanted = before + (MEGABYTES << 20) * 9 // 10
    took = within(SECONDS, lambda: free_space(point) >= wanted)
    expect("space is back (%s)" % what, took)


def start_reader():
    return Agent(LIBRARY, os.path.abspath("file_gone.%d.json" % os.getpid()))


def finish(reader):
    statistics = reader.finish()
    if "--cached" not in sys.argv:
        return
    if statistics is None or statistics["reads"]["bytes"] < MEGABYTES << 20:
        print("the file was not cached")
        bad.append("cached")


def space_returns(point, unlink_first):
    """close and unlink in either order."""
    path = point + "/file"
    make(path)
    reader = start_reader()
    reader.open(path)
    reader.read(path)
    reader.read(path)
    before = free_space(point)
    if unlink_first:
        os.unlink(path)
        reader.close(path)
    else:
        reader.close(path)
        os.unlink(path)
    expect_space("unlink, close" if unlink_first else "close, unlink", point,
                 before)
    finish(reader)


def space_returns_when_replaced(point):
    """A new file renamed over the one that was read."""
    path = point + "/file"
    make(path)
    reader = start_reader()
    reader.read_once(path)
    before = free_space(point)
    with open(point + "/new", "wb") as f:
        f.write(b"small")
    os.rename(point + "/new", path)
    expect_space("renamed over", point, before)
    os.unlink(path)
    finish(reader)


def can_be_unmounted(point):
    path = point + "/file"
    make(path)
    reader = start_reader()
    reader.open(path)
    reader.read(path)
    if disks.call("umount", point) is None:
        bad.append("unmounted under an open file: the test is wrong")
    reader.close(path)
    took = within(SECONDS, lambda: disks.call("umount", point) is None)
    expect("unmounted with the reader alive", took)
    finish(reader)


with disks.mounted(sys.argv[1]) as mount_point:
    for order in (True, False):
        space_returns(mount_point, order)
    space_returns_when_replaced(mount_point)
    can_be_unmounted(mount_point)
print("FAIL" if bad else "PASS")
sys.exit(bool(bad))
