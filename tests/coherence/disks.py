# SPDX-License-Identifier: MIT
"""File systems of our own for a test: made, mounted and removed again.

A test that needs one and cannot have it is skipped (exit 77) with a reason.
"""
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile

MAKE = {
    "ext4": ["mkfs.ext4", "-q", "-F"],
    "xfs": ["mkfs.xfs", "-q", "-f"],
    "btrfs": ["mkfs.btrfs", "-q", "-f"],
}


def plain_environment():
    return {k: v for k, v in os.environ.items()
            if k != "LD_PRELOAD" and not k.startswith("RACACHE_")}


def skip(why):
    print("skipped: " + why)
    sys.exit(77)


def call(*command):
    """Runs without the library; stderr in case of failure, else None."""
    try:
        p = subprocess.run(command, env=plain_environment(),
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    except FileNotFoundError as e:
        return str(e)
    return None if p.returncode == 0 else p.stderr.decode().strip() or "failed"


def must(*command):
    why = call(*command)
    if why is not None:
        skip("%s: %s" % (" ".join(command), why))


@contextlib.contextmanager
def folder(where="."):
    """A folder below the current one (a disk, in a build directory)."""
    path = tempfile.mkdtemp(prefix="disk-", dir=os.path.abspath(where))
    os.chmod(path, 0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def mounted(kind, megabytes=600):
    """The mount point of a fresh file system in an image file."""
    if os.geteuid() != 0:
        skip("mounting %s needs root" % kind)
    if not shutil.which(MAKE[kind][0]):
        skip(MAKE[kind][0] + " is not installed")
    with folder() as base:
        image, point = base + "/image", base + "/mnt"
        os.mkdir(point)
        with open(image, "wb") as f:
            f.truncate(megabytes << 20)
        must(*MAKE[kind], image)
        must("mount", "-o", "loop", image, point)
        try:
            yield point
        finally:
            unmount(point)


@contextlib.contextmanager
def overlaid():
    """The mount point of an overlay over two folders of this disk."""
    if os.geteuid() != 0:
        skip("mounting an overlay needs root")
    with folder() as base:
        parts = ["lower", "upper", "work", "mnt"]
        for part in parts:
            os.mkdir(base + "/" + part)
        options = "lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work" % (
            base, base, base)
        must("mount", "-t", "overlay", "overlay", "-o", options,
             base + "/mnt")
        try:
            yield base + "/mnt"
        finally:
            unmount(base + "/mnt")


def unmount(point):
    if os.path.ismount(point) and call("umount", point) is not None:
        call("umount", "-l", point)
