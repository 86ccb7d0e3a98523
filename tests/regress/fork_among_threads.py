#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A child forked while other threads are reading can itself read.

Why: it inherits every lock that another thread holds at that moment, and the
thread that would release it does not exist there.
(tebako 433, Darshan 919 and 922, felix86 767.)
"""
import os
import random
import signal
import threading
import time

from support import check, verdict

FORKS, THREADS, PATIENCE = 200, 4, 10
DATA = os.urandom(3_000_000)
with open("shared", "wb") as f:
    f.write(DATA)
finished = threading.Event()


def keep_reading(seed):
    choice = random.Random(seed)
    while not finished.is_set():
        fd = os.open("shared", os.O_RDONLY)
        for _ in range(15):
            at = choice.randrange(len(DATA) - 8000)
            if os.pread(fd, 8000, at) != DATA[at:at + 8000]:
                check(False, "a thread read wrong bytes at %d" % at)
        os.close(fd)


def in_child(kept, i):
    """What the child does; whether all of it was right."""
    right = os.pread(kept, 60000, 500 + i) == DATA[500 + i:60500 + i]
    fd = os.open("shared", os.O_RDONLY)
    right &= os.read(fd, 4000) == DATA[:4000]
    right &= os.lseek(fd, 0, os.SEEK_CUR) == 4000
    os.lseek(fd, -250, os.SEEK_END)
    right &= os.read(fd, 999) == DATA[-250:] and os.read(fd, 1) == b""
    os.close(fd)
    os.close(kept)
    return right


def wait_for(pid):
    """The child's status, or None if it hangs (it is ended then)."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        time.sleep(0.0005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


threads = [threading.Thread(target=keep_reading, args=(i,))
           for i in range(THREADS)]
for thread in threads:
    thread.start()
kept_open, hanging = os.open("shared", os.O_RDONLY), 0
for number in range(FORKS):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if in_child(kept_open, number) else 2
        finally:
            os._exit(code)
    outcome = wait_for(child)
    hanging += outcome is None
    check(outcome == 0, "child %d: %s" % (number, "hangs" if outcome is None
                                          else "status %#x" % outcome))
    if hanging > 1:
        break
finished.set()
for thread in threads:
    thread.join()
verdict()
