#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""In a control group that becomes too small, the cache makes room in time.

Why: our memory is the process's, the kernel cannot take it back, and would end
the database instead. A reader with a full cache and a second process that wants
ever more memory share a group; nobody is killed, the cache shrinks while the
second one grows, and grows again when that has gone.
"""
import hashlib
import json
import os
import subprocess
import sys
import time

MIB = 1 << 20
LIMIT = 320
CACHE = 200
FILE = 180
HOG = 200
LIBRARY = os.environ["RACACHE_LIBRARY"]

READER = r"""
import hashlib, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
for line in sys.stdin:
    h, at = hashlib.md5(), 0
    while b := os.pread(fd, 1 << 20, at):
        h.update(b)
        at += len(b)
    print(h.hexdigest(), flush=True)
"""
# 10 MiB at a time, 100 MiB a second.
HOG_CODE = r"""
import sys, time
held = []
for i in range(int(sys.argv[1]) // 10):
    held.append(bytearray(b"x" * (10 << 20)))
    time.sleep(0.1)
print("done", flush=True)
sys.stdin.read()
"""


def skip(why):
    print("skipped: " + why)
    sys.exit(77)


def own_group():
    """A fresh group with a limit, below this process's own."""
    lines = dict(line.split(":", 2)[1:]
                 for line in open("/proc/self/cgroup").read().splitlines())
    name = "racache-test-%d" % os.getpid()
    if "memory" in lines:
        path = "/sys/fs/cgroup/memory" + lines["memory"].rstrip("/") + "/" + name
        limit = "memory.limit_in_bytes"
    else:
        path = "/sys/fs/cgroup" + lines.get("", "/").rstrip("/") + "/" + name
        limit = "memory.max"
    try:
        os.mkdir(path)
    except OSError as e:
        skip("no group of our own: %s" % e)
    try:
        with open(path + "/" + limit, "w") as f:
            f.write(str(LIMIT * MIB))
    except OSError as e:
        os.rmdir(path)
        skip("no memory limit: %s" % e)
    return path


def start(group, code, *arguments, **environment):
    def enter():
        with open(group + "/cgroup.procs", "w") as f:
            f.write(str(os.getpid()))
    env = {k: v for k, v in os.environ.items()
           if k != "LD_PRELOAD" and not k.startswith("RACACHE_")}
    env.update(environment)
    return subprocess.Popen(
        ["/usr/bin/python3", "-S", "-c", code, *arguments], text=True, env=env,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=enter)


def anonymous(process):
    """MiB of the process's own memory."""
    for line in open("/proc/%d/status" % process.pid):
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) >> 10
    return 0


def read_all(reader, digest):
    reader.stdin.write("go\n")
    reader.stdin.flush()
    answer = reader.stdout.readline().strip()
    check(answer == digest, "the reader %s" % ("died" if not answer else
                                               "read other bytes"))


problems = []


def check(condition, text):
    if not condition:
        problems.append(text)
        print("problem: " + text, flush=True)
    return condition


def scenario(group, data, digest, stats):
    reader = start(group, READER, data, LD_PRELOAD=LIBRARY,
                   RACACHE_SIZE="%dM" % CACHE, RACACHE_STATS="json:" + stats)
    for _ in range(3):
        read_all(reader, digest)
    full = anonymous(reader)
    print("full: %d MiB" % full)
    if not check(full > FILE * 3 // 4, "the cache did not fill"):
        return
    hog = start(group, HOG_CODE, str(HOG))
    answer = hog.stdout.readline().strip()
    check(answer == "done", "the other process was killed")
    time.sleep(1)
    small = anonymous(reader)
    print("with %d MiB wanted elsewhere: %d MiB" % (HOG, small))
    check(small < LIMIT - HOG, "the cache did not shrink")
    read_all(reader, digest)
    hog.stdin.close()
    hog.wait()
    end = time.monotonic() + 40
    again = 0
    while time.monotonic() < end and again < FILE * 3 // 4:
        time.sleep(1)
        read_all(reader, digest)
        again = anonymous(reader)
    print("afterwards: %d MiB" % again)
    check(again >= FILE * 3 // 4, "the cache did not grow again")
    reader.stdin.close()
    check(reader.wait() == 0, "the reader's exit status")
    memory = json.load(open(stats))["memory"]
    print(memory)
    check(memory["given_back"] > 50 * MIB, "given_back")
    check(1 < memory["pressed_seconds"] < 60, "pressed_seconds")


def main():
    group = own_group()
    base = os.path.abspath("memory_pressure.%d" % os.getpid())
    data, stats = base + ".data", base + ".json"
    content = os.urandom(MIB) * FILE
    with open(data, "wb") as f:
        f.write(content)
        f.flush()
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    try:
        scenario(group, data, hashlib.md5(content).hexdigest(), stats)
    finally:
        for name in (data, stats):
            if os.path.exists(name):
                os.unlink(name)
        for _ in range(50):
            try:
                os.rmdir(group)
                break
            except OSError:
                time.sleep(0.1)
    print("FAIL" if problems else "PASS")
    sys.exit(bool(problems))


main()
