#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Files whose size says nothing: their bytes come from the kernel each time.

Why: files in /proc and /sys claim to be empty, change at every read, or can
only be read in one piece; terminals, pipes and memory files must not be read
ahead. Caches showed them empty or frozen. (machin 668, rayforce 572,
systemd 19157 and 13819, eio 878, YDB 120.)
"""
import ctypes
import errno
import os
import pty
import subprocess
import time

from support import check, plain_environment, verdict


def truth(path):
    return subprocess.run(["cat", path], env=plain_environment(),
                          capture_output=True).stdout


def in_pieces(fd, step):
    pieces = []
    while True:
        piece = os.read(fd, step)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)


def steady_files():
    for path in ("/proc/version", "/proc/filesystems", "/proc/cmdline",
                 "/proc/sys/kernel/ostype", "/proc/sys/kernel/hostname",
                 "/sys/kernel/mm/transparent_hugepage/enabled",
                 "/sys/devices/system/cpu/online"):
        if not os.path.exists(path):
            continue
        want = truth(path)
        check(open(path, "rb").read() == want, path)
        fd = os.open(path, os.O_RDONLY)
        check(os.pread(fd, 70000, 0) == want, path + " by pread")
        if not path.startswith("/proc/sys/"):
            check(in_pieces(fd, 5) == want, path + " in pieces")
        os.lseek(fd, 0, os.SEEK_SET)
        check(os.read(fd, 9) == want[:9], path + " once more")
        os.close(fd)


def differs_after(fd, pause):
    first = os.pread(fd, 4096, 0)
    end = time.monotonic() + pause
    while time.monotonic() < end:  # uses processor time
        pass
    return os.pread(fd, 4096, 0) != first


def changing_files():
    fd = os.open("/proc/sys/kernel/random/uuid", os.O_RDONLY)
    first = os.read(fd, 100)
    os.lseek(fd, 0, os.SEEK_SET)
    check(len(first) == 37 and os.read(fd, 100) != first, "uuid is frozen")
    fd = os.open("/proc/self/stat", os.O_RDONLY)
    check(differs_after(fd, 0.3), "/proc/self/stat is frozen")
    fd = os.open("/proc/uptime", os.O_RDONLY)
    check(differs_after(fd, 0.1), "/proc/uptime is frozen")


def own_memory():
    fd = os.open("/proc/self/mem", os.O_RDONLY)
    memory = ctypes.create_string_buffer(b"before" * 20)
    at = ctypes.addressof(memory)
    check(os.pread(fd, 6, at) == b"before", "/proc/self/mem")
    memory[0:6] = b"behind"
    check(os.pread(fd, 6, at) == b"behind", "/proc/self/mem is frozen")


def nameless_files():
    fd = os.memfd_create("nameless")
    os.write(fd, b"xyz" * 30000)
    check(os.pread(fd, 99999, 0) == b"xyz" * 30000, "memfd")
    os.pwrite(fd, b"XYZ", 0)
    check(os.pread(fd, 3, 0) == b"XYZ", "memfd is frozen")
    again = os.open("/proc/self/fd/%d" % fd, os.O_RDONLY)
    check(os.read(again, 6) == b"XYZxyz", "memfd opened again")
    fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
    os.write(fd, b"t" * 80000)
    os.lseek(fd, 79000, os.SEEK_SET)
    check(os.read(fd, 9999) == b"t" * 1000, "O_TMPFILE")
    fd = os.open("gone", os.O_RDWR | os.O_CREAT, 0o600)
    reader = os.open("gone", os.O_RDONLY)
    os.unlink("gone")
    os.write(fd, b"g" * 75000)
    check(os.pread(reader, 99999, 0) == b"g" * 75000, "deleted file")


def fails_with(number, call, *arguments):
    try:
        call(*arguments)
    except OSError as e:
        return e.errno == number
    return False


def streams_and_errors():
    out, into = os.pipe()
    os.write(into, b"1234567")
    check(os.read(out, 4) == b"1234" and os.read(out, 9) == b"567", "pipe")
    check(fails_with(errno.ESPIPE, os.pread, out, 1, 0), "pread of a pipe")
    left, right = pty.openpty()
    os.write(left, b"line\n")
    check(os.read(right, 100) == b"line\n", "terminal")
    check(fails_with(errno.EISDIR, os.read, os.open(".", os.O_RDONLY), 1),
          "read of a folder")
    writer = os.open("written", os.O_WRONLY | os.O_CREAT)
    check(fails_with(errno.EBADF, os.read, writer, 1), "read of a write-only")
    check(fails_with(errno.EBADF, os.pread, writer, 1, 0), "pread of it")
    check(os.read(os.open("/dev/null", os.O_RDONLY), 9) == b"", "/dev/null")
    check(os.pread(os.open("/dev/zero", os.O_RDONLY), 9, 5) == bytes(9),
          "/dev/zero")
    event = os.eventfd(3)
    check(os.read(event, 8) == (3).to_bytes(8, "little"), "eventfd")


steady_files()
changing_files()
own_memory()
nameless_files()
streams_and_errors()
verdict()
