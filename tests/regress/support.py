# SPDX-License-Identifier: MIT
"""What the regression programs share. Each runs under whatever LD_PRELOAD it
was started with, in a folder of its own below the current one."""
import atexit
import os
import shutil
import subprocess
import sys
import tempfile

MIB = 1 << 20
problems = []


def plain_environment():
    return {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}


def own_folder():
    """Changes into a fresh folder that goes away at exit."""
    path = tempfile.mkdtemp(prefix="regress-", dir=os.getcwd())
    os.chmod(path, 0o755)
    owner = os.getpid()
    os.chdir(path)

    def remove():
        if os.getpid() == owner:  # not in forked children
            os.chdir("/")
            shutil.rmtree(path, ignore_errors=True)
    atexit.register(remove)
    return path


def outside(code):
    """Python code run by a process without the library."""
    subprocess.run(["/usr/bin/python3", "-S", "-c", "import os, mmap\n" + code],
                   env=plain_environment(), check=True)


def forget_pages(path):
    """Drops the kernel's cached pages of a file, from outside."""
    outside("fd = os.open(%r, os.O_RDONLY)\nos.fsync(fd)\n"
            "os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)" % path)


def make_cold(path, megabytes, content):
    """content(i) gives megabyte i."""
    with open(path, "wb") as f:
        for i in range(megabytes):
            f.write(content(i))
    forget_pages(path)


def from_device():
    """Bytes that this process had the devices read."""
    for line in open("/proc/self/io"):
        if line.startswith("read_bytes:"):
            return int(line.split()[1])
    return 0


def check(condition, text):
    if not condition:
        problems.append(text)


def verdict():
    for text in problems[:10]:
        print("problem: " + text)
    if len(problems) > 10:
        print("and %d more" % (len(problems) - 10))
    print("FAIL" if problems else "PASS")
    sys.stdout.flush()
    sys.exit(1 if problems else 0)


own_folder()
