#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Files that cannot be read directly, and programs that do so themselves.

Why: tmpfs, overlays, squashfs, /proc and devices refuse O_DIRECT in ways of
their own (at open, or only at the read); and the errors of a program's own
O_DIRECT descriptor are its own. (RocksDB 3539 and 1265, mysql-5.6 778,
Seastar 3518, Node 57047.)
"""
import errno
import glob
import hashlib
import mmap
import os
import shutil
import subprocess
import tempfile
import threading

from support import check, plain_environment, verdict

DATA = os.urandom(4_000_003)
DIGEST = hashlib.sha1(DATA).hexdigest()
with open("data", "wb") as f:
    f.write(DATA)


def plain(*words):
    return subprocess.run(words, env=plain_environment(), check=True,
                          capture_output=True).stdout


def digest_of(path):
    out = subprocess.run("sha1sum <'%s' && dd bs=4097 status=none if='%s' | "
                         "sha1sum" % (path, path), shell=True,
                         capture_output=True).stdout.split()
    return [w.decode() for w in out[::2]]


def reads_right(name, path):
    check(digest_of(path) == [DIGEST, DIGEST], name + ": wrong bytes")
    fd = os.open(path, os.O_RDONLY)
    check(os.pread(fd, 70000, 12345) == DATA[12345:82345], name + ": pread")
    check(os.pread(fd, 9999, 4_000_000) == DATA[4_000_000:], name + ": tail")
    os.close(fd)


def in_memory():
    base = tempfile.mkdtemp(dir="/dev/shm")
    try:
        shutil.copy("data", base)
        reads_right("tmpfs", base + "/data")
    finally:
        shutil.rmtree(base)


def mounted(name, script, inside):
    """Runs Python under the library where `script` has mounted things."""
    code = "unshare", "-m", "sh", "-ec", (
        "saved=$LD_PRELOAD; unset LD_PRELOAD; %s\n"
        'export LD_PRELOAD="$saved"; exec /usr/bin/python3 -S -c "$1"' %
        script), "sh", "import os, hashlib\n" + inside
    p = subprocess.run(code, capture_output=True, text=True)
    check(p.returncode == 0, "%s: %s" % (name, p.stderr[-300:]))


SAME = "assert hashlib.sha1(open('mnt/data','rb').read()).hexdigest()" \
    " == '%s'\n" % DIGEST
COPY_UP = SAME + """
old = os.open('mnt/data', os.O_RDONLY); os.pread(old, 10, 0)
w = os.open('mnt/data', os.O_WRONLY); os.pwrite(w, b'copied', 0); os.close(w)
assert open('mnt/data', 'rb').read(6) == b'copied'
"""


def with_mounts():
    for name in ("lower", "upper", "work", "mnt"):
        os.mkdir(name)
    shutil.copy("data", "lower")
    overlay = "mount -t overlay none -o lowerdir=lower,upperdir=upper," \
        "workdir=work mnt"
    mounted("overlay", overlay, SAME)
    mounted("copy-up", overlay, COPY_UP)
    if shutil.which("mksquashfs"):
        plain("mksquashfs", "lower", "image", "-quiet")
        mounted("squashfs", "mount -o loop image mnt", SAME)
        mounted("overlay on squashfs",
                "mkdir sq up2 work2; mount -o loop image sq; mount -t overlay "
                "none -o lowerdir=sq,upperdir=up2,workdir=work2 mnt", COPY_UP)


def special_files():
    for path in ("/proc/cpuinfo", "/proc/self/maps", "/proc/mounts",
                 *glob.glob("/sys/block/*/size")):
        if os.path.exists(path):
            check(open(path, "rb").read(), path + " is empty")
    check(open("/dev/zero", "rb").read(70000) == bytes(70000), "/dev/zero")
    check(len(open("/dev/urandom", "rb").read(5000)) == 5000, "/dev/urandom")
    os.mkfifo("fifo")
    writer = threading.Thread(
        target=lambda: open("fifo", "wb").write(DATA[:300000]))
    writer.start()
    check(open("fifo", "rb").read() == DATA[:300000], "fifo")
    writer.join()


def refused(fd, n, at):
    try:
        os.pread(fd, n, at)
    except OSError as e:
        return e.errno == errno.EINVAL
    return False


def own_direct_descriptor():
    fd = os.open("data", os.O_RDONLY | os.O_DIRECT)
    check(refused(fd, 100, 1), "a misaligned direct read was served")
    aligned = mmap.mmap(-1, 1 << 20)
    got = os.preadv(fd, [aligned], 8192)
    check(got == 1 << 20 and aligned[:] == DATA[8192:8192 + (1 << 20)],
          "direct read: wrong bytes")
    tail = len(DATA) // 4096 * 4096
    got = os.preadv(fd, [aligned], tail)
    check(aligned[:got] == DATA[tail:], "direct read of the tail")
    os.close(fd)


in_memory()
if os.geteuid() == 0 and subprocess.run(["unshare", "-m", "true"],
                                        capture_output=True).returncode == 0:
    with_mounts()
special_files()
own_direct_descriptor()
reads_right("disk", "data")
verdict()
