#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs coherence_rounds on one file system, with the reader preloaded.

Why: leases, O_DIRECT and truncation differ between file systems, and a stale
byte on any of them breaks the one promise a cache has to keep. With a
library, the reader's statistics must show that there was a cache to break.
"""
import argparse
import glob
import json
import os
import random
import subprocess
import sys

import disks


def parse():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--program", required=True)
    p.add_argument("--library", default=os.environ.get("RACACHE_LIBRARY"))
    p.add_argument("--fs", default="here",
                   choices=("here", "ext4", "xfs", "btrfs", "overlay"))
    p.add_argument("--mode", default="rounds", choices=("rounds", "threads"))
    p.add_argument("--count", default="10000", help="rounds, or seconds")
    p.add_argument("--seed", type=int)
    p.add_argument("--allow-idle", action="store_true",
                   help="it is no failure if no lease was ever broken")
    p.add_argument("--expect-failure", action="store_true",
                   help="self-test with a broken library")
    return p.parse_args()


def place(kind):
    if kind == "here":
        return disks.folder()
    return disks.overlaid() if kind == "overlay" else disks.mounted(kind)


def environment(args, stats):
    env = disks.plain_environment()
    env.update({k: v for k, v in os.environ.items()
                if k.startswith("RACACHE_") and k != "RACACHE_LIBRARY"})
    env.setdefault("RACACHE_MIN_FILE", "1")
    env["RACACHE_STATS"] = "json:%s/stats.%%p" % stats
    return env


def cache_worked(stats):
    """Whether files were cached, and changes met cached files."""
    files = glob.glob(stats + "/stats.*")
    if not files:
        print("the reader wrote no statistics: it cached nothing")
        return False
    all_of = [json.load(open(path)) for path in files]
    hits = sum(s["reads"]["hits"] for s in all_of)
    adopted = sum(s["files"]["adopted"] for s in all_of)
    breaks = sum(s["files"]["lease_breaks"] for s in all_of)
    kernel = [s["files"]["kernel"] for s in all_of]
    print("adopted %d, lease breaks %d, hits %d, the kernel's: %s"
          % (adopted, breaks, hits, kernel))
    return hits > 0 and breaks > 0


def main():
    args = parse()
    seed = args.seed if args.seed is not None else \
        random.SystemRandom().randrange(1 << 32)
    print("%s, %s, seed %d" % (args.fs, args.mode, seed), flush=True)
    with place(args.fs) as point, disks.folder() as stats:
        os.mkdir(point + "/files")
        command = [os.path.abspath(args.program), args.mode,
                   point + "/files", args.count, str(seed)]
        if args.library:
            command.append(os.path.abspath(args.library))
        status = subprocess.run(command, env=environment(args, stats)
                                ).returncode
        if args.expect_failure:
            return 0 if status == 1 else 1
        if status == 0 and args.library and not args.allow_idle:
            status = 0 if cache_worked(stats) else 1
    return status


if __name__ == "__main__":
    sys.exit(main())
