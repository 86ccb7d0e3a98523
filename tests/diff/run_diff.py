#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs random programs of file calls with and without the library.

Why: whatever a program can see of a file (values, errno, bytes, positions,
numbers of descriptors) has to be the kernel's; this compares all of it, call
by call. Prints the seed, and for a difference the first line that differs
and the command that repeats it. Exit 0: equal; 1: different; 77: no library.
"""
import argparse
import concurrent.futures
import json
import glob
import os
import random
import shutil
import subprocess
import sys
import time

VARIANTS = {
    "RACACHE_SIZE": ("8M", "8M", "64M", None),
    "RACACHE_IO": ("auto", "auto", "threads", "uring"),
    "RACACHE_MAX_ORDER": ("9", "9", "0", "4"),
    "RACACHE_VERIFY": ("0", "0", "1"),
    "RACACHE_MIN_FILE": ("1", "1", "1", "64K"),
}


def parse():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--program", required=True)
    p.add_argument("--library", default=os.environ.get("RACACHE_LIBRARY"))
    p.add_argument("--work", default="diff-work")
    p.add_argument("--seed", type=int, help="of the first program")
    p.add_argument("--calls", type=int, default=200, help="a program")
    p.add_argument("--programs", type=int, help="default: 100,000 calls")
    p.add_argument("--hours", type=float, help="run that long instead")
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("--skip", default="", help="kinds to leave out, by commas")
    p.add_argument("--plain-twice", type=int, default=10,
                   help="programs that are first run twice without library")
    p.add_argument("--keep-going", type=int, default=1,
                   help="stop after this many programs that differ")
    p.add_argument("--keep", action="store_true", help="keep the files")
    p.add_argument("--allow-idle", action="store_true",
                   help="it is no failure if nothing was ever cached")
    p.add_argument("--expect-difference", action="store_true",
                   help="fail unless a difference is found (self-test)")
    p.add_argument("--timeout", type=float, default=120)
    return p.parse_args()


def environment(args, seed, folder):
    """The environment of the preloaded run: what the seed chooses."""
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    env = {k: v for k, v in env.items() if not k.startswith("RACACHE_")}
    chosen = {}
    choice = random.Random(seed)
    for name, values in VARIANTS.items():
        value = choice.choice(values)
        if value is not None:
            chosen[name] = value
    chosen["RACACHE_LOG"] = "error"
    chosen["RACACHE_STATS"] = "json:%s/stats.%%p" % folder
    env.update(chosen)
    env["LD_PRELOAD"] = os.path.abspath(args.library)
    return env, chosen


def run(args, seed, calls, way, env):
    """One run; the log's lines, the lines of stderr, and the folder."""
    folder = os.path.abspath("%s/%d-%s" % (args.work, seed, way))
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder + "/files")
    command = [args.program, str(seed), str(calls), folder + "/files"]
    if args.skip:
        command.append(args.skip)
    with open(folder + "/log", "wb") as log, \
            open(folder + "/stderr", "wb") as err:
        p = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL,
                             stdout=log, stderr=err, cwd="/")
        try:
            status = p.wait(args.timeout)
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()
            status = "timeout"
    lines = open(folder + "/log", errors="replace").read().splitlines()
    errors = open(folder + "/stderr", errors="replace").read().splitlines()
    lines.append("exit status %s" % status)
    # The folder's own name is the one legitimate difference.
    errors = [e.replace(folder, "DIR") for e in errors]
    return lines, errors, folder


def first_difference(a, b):
    for i in range(max(len(a), len(b))):
        if i >= len(a) or i >= len(b) or a[i] != b[i]:
            return i
    return None


def explain(args, seed, chosen, a, b, names, folders):
    i = first_difference(a, b)
    print("\nseed %d: line %d differs" % (seed, i + 1))
    for line in a[max(0, i - 6):i]:
        print("        %s" % line)
    for name, lines in zip(names, (a, b)):
        print("%7s %s" % (name, lines[i] if i < len(lines) else "(no line)"))
    print("environment: %s" % " ".join("%s=%s" % c for c in chosen.items()))
    print("logs: %s" % " ".join(f + "/log" for f in folders))
    skip = " --skip " + args.skip if args.skip else ""
    print("again: %s --program %s --library %s --seed %d --programs 1 "
          "--calls %d --keep%s" % (sys.argv[0], args.program, args.library,
                                   seed, args.calls, skip), flush=True)


def hits_of(folder):
    """(calls, hits) over all processes that wrote statistics."""
    calls = hits = 0
    for path in glob.glob(folder + "/stats.*"):
        try:
            reads = json.load(open(path))["reads"]
            calls += reads["calls"]
            hits += reads["hits"]
        except (ValueError, KeyError, OSError):
            print("bad statistics in %s" % path)
    return calls, hits


def plain_environment():
    return {k: v for k, v in os.environ.items()
            if k != "LD_PRELOAD" and not k.startswith("RACACHE_")}


def compare_plain(args, seed):
    """The programs must be deterministic before anything is compared."""
    a, _, d = run(args, seed, args.calls, "plain", plain_environment())
    b, _, e = run(args, seed, args.calls, "plain-again", plain_environment())
    same = first_difference(a, b) is None
    if not same:
        explain(args, seed, {}, a, b, ("first", "second"), (d, e))
        print("the PROGRAM is not deterministic")
    if same and not args.keep:
        shutil.rmtree(d)
        shutil.rmtree(e)
    return same


def compare(args, seed):
    """(equal, calls made, (cached calls, hits))"""
    folder = os.path.abspath("%s/%d-cached" % (args.work, seed))
    env, chosen = environment(args, seed, folder)
    a, aerr, d = run(args, seed, args.calls, "plain", plain_environment())
    b, berr, e = run(args, seed, args.calls, "cached", env)
    if a[-1].endswith("timeout"):
        print("seed %d: the PROGRAM hangs without the library" % seed)
        return False, len(a), (0, 0)
    names = ("kernel", "library")
    if first_difference(a, b) is not None:
        explain(args, seed, chosen, a, b, names, (d, e))
        return False, len(a), hits_of(e)
    if first_difference(aerr, berr) is not None:
        print("on stderr:")
        explain(args, seed, chosen, aerr, berr, names, (d, e))
        return False, len(a), hits_of(e)
    hits = hits_of(e)
    if not args.keep:
        shutil.rmtree(d)
        shutil.rmtree(e)
    return True, len(a), hits


def seeds(args, first):
    """Seeds to run, until the number or the time is used up."""
    programs = args.programs or max(1, 100000 // args.calls)
    end = time.time() + args.hours * 3600 if args.hours else None
    n = 0
    while time.time() < end if end else n < programs:
        yield first + n
        n += 1


def run_all(args, first):
    differing, programs, lines, calls, hits = 0, 0, 0, 0, 0
    source = seeds(args, first)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        running = set()
        while True:
            while len(running) < args.jobs and differing < args.keep_going:
                seed = next(source, None)
                if seed is None:
                    break
                running.add(pool.submit(compare, args, seed))
            if not running:
                break
            done, running = concurrent.futures.wait(
                running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                equal, n, (c, h) = future.result()
                differing += not equal
                programs, lines = programs + 1, lines + n
                calls, hits = calls + c, hits + h
    return differing, programs, lines, calls, hits


def main():
    args = parse()
    args.program = os.path.abspath(args.program)
    if not args.library:
        print("RACACHE_LIBRARY is not set")
        return 77
    first = args.seed if args.seed is not None else \
        random.SystemRandom().randrange(1 << 40)
    print("first seed %d" % first, flush=True)
    for seed in range(first, first + args.plain_twice):
        if not compare_plain(args, seed):
            return 1
    start = time.time()
    differing, programs, lines, calls, hits = run_all(args, first)
    print("%d programs, %d lines, %d differ; cached reads %d, hits %d; "
          "%.0f s" % (programs, lines, differing, calls, hits,
                      time.time() - start))
    if (not differing or args.expect_difference) and not args.keep:
        shutil.rmtree(args.work, ignore_errors=True)
    if args.expect_difference:
        return 0 if differing else 1
    if not differing and hits == 0 and not args.allow_idle:
        print("nothing was ever served from the cache: this proves nothing")
        return 1
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
