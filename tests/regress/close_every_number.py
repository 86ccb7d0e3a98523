#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Programs close all numbers up to the limit; reads work, and it is quick.

Why: daemons do it by a loop over a million numbers, by close_range, by
closefrom, or by raw system calls; a library whose own descriptors are among
them, or whose close is dear, breaks there. (fuzzilli 540, moby 27195,
tomato 5, util-linux 883, cplt 525.)
"""
import ctypes
import os
import resource
import sys
import time

from support import check, problems, verdict

SECONDS = 5
libc = ctypes.CDLL(None, use_errno=True)
DATA = os.urandom(2_000_000)
with open("data", "wb") as f:
    f.write(DATA)
try:
    resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 20, 1 << 20))
except (OSError, ValueError):
    pass
TOP = resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def reads_work(when):
    for i in range(12):
        at = i * 150_007
        fd = os.open("data", os.O_RDONLY)
        check(os.pread(fd, 40000, at) == DATA[at:at + 40000],
              when + ": wrong pread")
        os.lseek(fd, at, os.SEEK_SET)
        check(os.read(fd, 5001) == DATA[at:at + 5001], when + ": wrong read")
        check(os.lseek(fd, 0, os.SEEK_CUR) == min(at + 5001, len(DATA)),
              when + ": wrong position")
        os.close(fd)


def close_loop():
    close = libc.close
    for fd in range(3, TOP):
        close(fd)


def raw_close():
    for fd in range(3, 4096):
        libc.syscall(3 if os.uname().machine == "x86_64" else 57, fd)


WAYS = {
    "loop of close": close_loop,
    "close_range": lambda: libc.close_range(3, ctypes.c_uint(~0), 0),
    "closefrom": lambda: libc.closefrom(3),
    "os.closerange": lambda: os.closerange(3, TOP),
    "close_range with CLOEXEC":
        lambda: libc.close_range(3, ctypes.c_uint(~0), 4),
    "close_range with UNSHARE":
        lambda: libc.close_range(3, ctypes.c_uint(~0), 2),
    "raw system calls": raw_close,
}


def timed(name, way):
    start = time.monotonic()
    way()
    took = time.monotonic() - start
    check(took < SECONDS, "%s took %.1f s" % (name, took))
    reads_work("after " + name)


def in_child(name, way):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            timed(name, way)
            for problem in problems[:3]:
                os.write(1, (problem + "\n").encode())
            code = 1 if problems else 0
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    check(status == 0, "%s in a child: status %#x" % (name, status))


reads_work("at first")
for title, action in WAYS.items():
    in_child(title, action)
for title in ("loop of close", "close_range", "raw system calls"):
    timed(title, WAYS[title])
verdict()
