#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Whoever changes a file, by whatever means: the next read shows it.

Why: reads that were answered from a cache of one's own went on showing old
bytes after buffered, direct and mapped writes by others, and after a rename.
(clio-core 1028, netdata 14205, musefs 683, mirage 18, nbs 4723.)
"""
import mmap
import os

from support import check, outside, verdict

SIZE, PAGE = 3 << 20, 4096
with open("watched", "wb") as f:
    f.write(b"." * SIZE)
kept = os.open("watched", os.O_RDONLY)
second = os.open("watched", os.O_RDONLY)


def warm():
    for at in range(0, SIZE, 1 << 17):
        os.pread(kept, 1 << 17, at)
    os.lseek(second, 0, os.SEEK_SET)
    while os.read(second, 1 << 18):
        pass


def shows(what, at, want):
    got = os.pread(kept, len(want), at)
    check(got == want, "%s: pread shows %r" % (what, got[:12]))
    os.lseek(second, at, os.SEEK_SET)
    got = os.read(second, len(want))
    check(got == want, "%s: read shows %r" % (what, got[:12]))


def own_direct(at, byte):
    page = mmap.mmap(-1, PAGE)
    page[:] = byte * PAGE
    fd = os.open("watched", os.O_WRONLY | os.O_DIRECT)
    os.pwritev(fd, [page], at)
    os.close(fd)


def own_mapping(at, byte):
    fd = os.open("watched", os.O_RDWR)
    view = mmap.mmap(fd, SIZE)
    os.close(fd)
    view[at:at + PAGE] = byte * PAGE
    shows("own mapping, still there", at, byte * PAGE)
    view.close()


def own_write(at, byte):
    fd = os.open("watched", os.O_RDWR | os.O_NONBLOCK)
    os.pwrite(fd, byte * PAGE, at)
    os.close(fd)


OTHERS = {
    "buffered": "f = os.open('watched', os.O_WRONLY)\n"
                "os.pwrite(f, b * 4096, at)",
    "direct": "f = os.open('watched', os.O_WRONLY | os.O_DIRECT)\n"
              "m = mmap.mmap(-1, 4096); m[:] = b * 4096\n"
              "os.pwritev(f, [m], at)",
    "mapping": "f = os.open('watched', os.O_RDWR)\n"
               "m = mmap.mmap(f, 0); m[at:at + 4096] = b * 4096",
    "truncated and rewritten": "f = os.open('watched', os.O_RDWR)\n"
                               "old = os.pread(f, %d, 0)\n"
                               "os.ftruncate(f, 0)\n"
                               "os.pwrite(f, old, 0)\n"
                               "os.pwrite(f, b * 4096, at)" % SIZE,
}
OWN = {"own direct write": own_direct, "own mapping": own_mapping,
       "own write": own_write}
step = 0
for turn in range(4):
    for name, code in OTHERS.items():
        step += 1
        where, letter = (10 + 3 * step) * PAGE, bytes([65 + step])
        warm()
        outside("at, b = %d, %r\n%s" % (where, letter, code))
        shows("another process, " + name, where, letter * PAGE)
    for name, change in OWN.items():
        step += 1
        where, letter = (10 + 3 * step) * PAGE, bytes([65 + step])
        warm()
        change(where, letter)
        shows(name, where, letter * PAGE)
warm()
outside("open('new', 'wb').write(b'new' * 30000)\nos.rename('new', 'watched')")
check(b"new" not in os.pread(kept, 90000, 0), "renamed over: old descriptor")
fresh = os.open("watched", os.O_RDONLY)
check(os.pread(fresh, 99999, 0) == b"new" * 30000, "renamed over: new open")
check(os.stat("watched").st_size == 90000, "renamed over: size")
verdict()
