#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Where the system refuses what the library wants, the program still runs.

Why: containers refuse io_uring, limits refuse locked memory, threads,
descriptors or address space, jails have no /proc; libraries that insist
abort there. (liburing 1078, eio 691, netty-io_uring 41 and 163, sled 899,
hardened_malloc 235.)  usage: rings_refused.py PATH-OF-deny_uring
"""
import errno
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile

from support import check, plain_environment, verdict

ours = os.environ.get("LD_PRELOAD", "")
DENY = sys.argv[1]
DATA = os.urandom(6_000_000)
DIGEST = hashlib.sha1(DATA).hexdigest()
with open("data", "wb") as f:
    f.write(DATA)
os.chmod("data", 0o644)
# The limits hold for sha1sum alone: env loads the library only for it.
READER = ["env", "LD_PRELOAD=" + ours, "RACACHE_MIN_FILE=1", "sha1sum"]
DD = ["env", "LD_PRELOAD=" + ours, "RACACHE_MIN_FILE=1", "dd", "bs=5000",
      "status=none"]
# Others may enter this folder, if not the one that the library was built in.
shelf = tempfile.TemporaryDirectory()
os.chmod(shelf.name, 0o755)
LIBRARY = ours and shutil.copy(ours, shelf.name)
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
ROOT = os.geteuid() == 0


def run(name, *words):
    try:
        with open("data", "rb") as stdin:
            p = subprocess.run(words, stdin=stdin, env=plain_environment(),
                               capture_output=True, timeout=40)
    except subprocess.TimeoutExpired:
        return check(False, name + " hangs")
    out = p.stdout
    digest = out.split()[0].decode() if len(out) < 100 and out else \
        hashlib.sha1(out).hexdigest()
    check(p.returncode == 0 and digest == DIGEST, "%s: status %d, %s" %
          (name, p.returncode, p.stderr[:300]))


def both(name, *words):
    run(name + ", sha1sum", *words, *READER)
    run(name + ", dd", *words, *DD)


def named(name, reason, *words, file="data", served=True):
    """With RACACHE_LOG=info the reason is one line on standard error; whether
    the cache served all the same is seen by the statistics."""
    if not ours:
        return
    env = dict(plain_environment(), RACACHE_STATS="stderr")
    p = subprocess.run(words + ("env", "LD_PRELOAD=" + LIBRARY,
                                "RACACHE_LOG=info", "cat", file),
                       env=env, capture_output=True, timeout=40)
    lines = p.stderr.decode(errors="replace").splitlines()
    check(p.returncode == 0 and hashlib.sha1(p.stdout).hexdigest() == DIGEST,
          "%s, cat: status %d" % (name, p.returncode))
    found = [x for x in lines if x.startswith(reason, len("racache: "))]
    check(len(found) == 1, "%s: not one line '%s': %s" % (name, reason, lines))
    check(served == any(x.startswith("racache: served") for x in lines),
          "%s: served or not: %s" % (name, lines))


both("nothing refused")
for number in (errno.EPERM, errno.ENOSYS, errno.ENOMEM, errno.EACCES,
               errno.EAGAIN, errno.EINVAL):
    both(errno.errorcode[number], DENY, str(number))
for limit in ("--nofile=4", "--as=268435456", "--as=67108864", "--fsize=0",
              "--stack=131072", "--rtprio=0", "--sigpending=0"):
    both("limit " + limit, "prlimit", limit)
named("EPERM", "io_uring: EPERM", DENY, str(errno.EPERM))
named("ENOSYS", "io_uring: ENOSYS", DENY, str(errno.ENOSYS))
named("few descriptors", "io_uring: RLIMIT_NOFILE is small", "prlimit",
      "--nofile=32")
named("too small", "a file is left to the kernel: size: small", "env",
      "RACACHE_MIN_FILE=1G", served=False)
if ROOT:
    shutil.copy("data", "nobodys")
    os.chown("nobodys", 65534, 65534)
    named("another user", "a file is left to the kernel: lease: EACCES",
          *NOBODY, served=False)
    # Kernels differ in what they count; where nothing is refused, none says so.
    named("locked memory", ("io_uring: ENOMEM", "io             uring"),
          *NOBODY, "prlimit", "--memlock=0", file="nobodys")
    both("another user", *NOBODY)
    both("no locked memory", *NOBODY, "prlimit", "--memlock=0")
    both("no further process", *NOBODY, "prlimit", "--nproc=1")
if ROOT and shutil.which("unshare") and subprocess.run(
        ["unshare", "-m", "true"], capture_output=True).returncode == 0:
    both("no /proc", "unshare", "-m", "sh", "-c",
         'mount -t tmpfs none /proc && exec "$@"', "sh")
    named("no /proc", "a file is left to the kernel: reopen: refused",
          "unshare", "-m", "sh", "-c",
          'mount -t tmpfs none /proc && exec "$@"', "sh", served=False)
    both("no /proc, no /sys", "unshare", "-m", "sh", "-c",
         "mount -t tmpfs none /proc && mount -t tmpfs none /sys && "
         'exec "$@"', "sh")
verdict()
