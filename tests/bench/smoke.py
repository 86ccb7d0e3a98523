#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`racache bench` on small files: what it counts must be exact, each rule must
be seen to work and to be off when it is switched off, and a run that is
interrupted must leave nothing behind. Times are not judged.

    smoke.py RACACHE WORK_FOLDER

As root it goes to a loop device of its own, otherwise to the folder.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from model_counts import KIB, MIB, pages_read, random_reads, stream_reads

RACACHE, WORK = sys.argv[1:3]
LIBRARY = os.environ["RACACHE_LIBRARY"]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SIZE = 64 * MIB
failures = []


def check(what, found, expected):
    if found != expected:
        failures.append(f"{what}: {found}, not {expected}")


def clean_environment(**more):
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("RACACHE", "LD_PRELOAD"))}
    # One window in flight, as the kernel and the model have it: several begin
    # at moments that depend on the device's speed.
    return dict(env, RACACHE_LIBRARY=LIBRARY, **{"RACACHE_DEPTH": "1"} | more)


def bench(*arguments, **environment):
    run = subprocess.run([RACACHE, "bench", "--dir", WORK, *arguments],
                         env=clean_environment(**environment), text=True,
                         timeout=150, capture_output=True, check=False)
    if run.returncode != 0:
        print(run.stdout, run.stderr)
        sys.exit(f"FAILED: bench {arguments}: exit status {run.returncode}")
    return run.stdout


def orders(**by_order):
    """orders(o9=32): 32 folios of order 9."""
    folios = [0] * 10
    for name, count in by_order.items():
        folios[int(name[1:])] = count
    return folios


def expected_folios():
    """By row, where the count does not depend on which thread is faster."""
    half = SIZE // 2
    share = SIZE / (1024 * MIB)
    return {
        "readahead-2m": orders(o9=SIZE // (2 * MIB)),
        "random-1m": orders(o8=SIZE // MIB),
        "random-256k": random_reads(SIZE, int(2000 * share))[0],
        "willneed-8m": None,  # of a mapping, which may be the kernel's
        "sequential": stream_reads(SIZE, MIB, 8192, 1280, False)[0],
        "fio-256k": orders(o6=SIZE // (256 * KIB)),
        "fio-64k": orders(o4=SIZE // (64 * KIB)),
        "random-4k": orders(o0=pages_read(SIZE, int(20000 * share))),
        "processes-4": None,  # small steps in order, which become a stream
        "warm-random": orders(o8=SIZE // MIB),
        "warm-stream": stream_reads(SIZE, MIB, 128, 1280, False)[0],
        "half-1m": stream_reads(half, MIB, 128, 512, True)[0],
        "half-512k": stream_reads(half, 512 * KIB, 128, 256, True)[0],
        "half-3m": stream_reads(half, 3 * MIB, 128, 1280, True)[0],
        "cached-4k": stream_reads(SIZE, MIB, 128, 1280, False)[0],
        "cached-loop": stream_reads(SIZE, MIB, 128, 1280, False)[0],
        "threads-64k": orders(o4=half // (64 * KIB)),
        "threads-4k": orders(o0=SIZE // 8 // (4 * KIB)),
        "db-readseq": None,
    }


def check_rows():
    """Every row, once on each side."""
    expected = expected_folios()
    report = json.loads(bench("--size", f"{SIZE // MIB}M", "--runs", "1",
                              "--json"))
    rows = {row["name"]: row for row in report["rows"]}
    check("rows", sorted(rows), sorted(expected))
    for name, row in rows.items():
        missing = not shutil.which("fio" if name.startswith(
            ("fio-", "cached-4k")) else "db_bench" if name.startswith("db-")
            else "true")
        check(name + " was skipped", "skipped" in row, missing)
        for side in () if missing else ("racache", "fresh"):
            own = row["sides"][side]["runs"][0]["racache"]
            # A job of fio's that warms up reads a file of its own as well.
            if expected[name]:
                check(f"{name}, {side}: folios by order",
                      own["folios_by_order"], expected[name])
            check_bytes(f"{name}, {side}", row, own)
            if name.startswith("cached"):
                check_lookups(f"{name}, {side}", own)
    return report


def check_bytes(name, row, own):
    """What is in the cache was read once, and nothing else; the last page of
    a database's table is not a whole one."""
    cached = sum(n * (4096 << o) for o, n in enumerate(own["folios_by_order"]))
    part = -row["file_bytes"] % 4096
    check(name + ": bytes", own["device_bytes"], cached - part)
    whole = not row["name"].startswith(("random-256k", "random-4k", "willneed",
                                        "db-"))
    if whole:
        times = 4 if row["name"] == "processes-4" else 1
        check(name + ": bytes", cached, times * row["file_bytes"])


def check_lookups(name, own):
    """One look-up a read, but for the reads that filled the cache."""
    if not own["calls"] <= own["lookups"] <= own["calls"] * 1.01 + 1000:
        failures.append(f"{name}: {own['lookups']} look-ups in {own['calls']} "
                        "reads")


def workload(name, disable="", **parameters):
    """One run of a loop; its statistics."""
    path = os.path.join(WORK, "statistics.json")
    data = os.path.join(WORK, "data")
    words = [f"{k}={v}" for k, v in parameters.items()]
    subprocess.run([RACACHE, "bench-workload", name, "file=" + data, *words],
                   env=clean_environment(LD_PRELOAD=LIBRARY,
                                         RACACHE_STATS="json:" + path,
                                         RACACHE_SIZE="96M",
                                         RACACHE_READ_AHEAD_KB="128",
                                         RACACHE_IO_KB="512",
                                         RACACHE_DISABLE=disable),
                   check=True, timeout=60, stdout=subprocess.DEVNULL)
    fd = os.open(data, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
    with open(path) as file:
        return json.load(file)


def make_data(size):
    with open(os.path.join(WORK, "data"), "wb") as file:
        file.write(os.urandom(size))
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def check_large_forced(size):
    for disable, expected in (("", orders(o9=size // (2 * MIB))),
                              ("large_forced", orders(o0=size // 4096))):
        s = workload("readahead", disable, size=size, block=2 * MIB)
        check(f"readahead(2), off: '{disable}': folios",
              s["folios"]["inserted_by_order"], expected)
        check("order_fallbacks", s["folios"]["order_fallbacks"], 0)


def check_half_window(size):
    for disable in "", "half_window":
        folios, ranges = stream_reads(size, MIB, 128, 512, True, not disable)
        s = workload("stream_behind_page", disable, size=size, block=MIB)
        check(f"stream, off: '{disable}': folios",
              s["folios"]["inserted_by_order"], folios)
        check(f"stream, off: '{disable}': trims avoided",
              s["readahead"]["trims_avoided"] > 0, not disable)
        if s["device"]["requests"] > ranges:
            failures.append(f"stream, off: '{disable}': "
                            f"{s['device']['requests']} requests for {ranges}")


def check_single_lookup(size):
    """More passes over what is cached cost one look-up a read more, or two."""
    for disable, each in (("", 1), ("single_lookup", 2)):
        few, many = (workload("cached", disable, size=size, block=4096,
                              passes=n) for n in (1, 3))
        calls = many["reads"]["calls"] - few["reads"]["calls"]
        lookups = many["index"]["lookups"] - few["index"]["lookups"]
        check("cached reads", calls, 2 * size // 4096)
        # Waits of the filling may look once more or less.
        if abs(lookups - each * calls) > calls // 100:
            failures.append(f"off: '{disable}': {lookups} look-ups in {calls} "
                            "cached reads")


def check_overlap_skip(size):
    for disable in "", "overlap_skip":
        s = workload("threads", disable, size=size, block=64 * KIB, threads=8)
        skips = s["readahead"]["overlap_skips"]
        requests = 8 * size // (64 * KIB)
        check(f"threads, off: '{disable}': bytes", s["device"]["bytes"], size)
        check(f"threads, off: '{disable}': folios",
              s["folios"]["inserted_by_order"], orders(o4=size // (64 * KIB)))
        # Of each range one request reads it; the others find it there.
        if disable:
            check("overlap_skips, off", skips, 0)
        elif not requests * 3 // 4 <= skips <= requests:
            failures.append(f"{skips} overlap skips of {requests} requests")


def check_table():
    text = bench("--size", "32M", "--runs", "1", "--only", "random-1m")
    check("lines wider than 120",
          [line for line in text.splitlines() if len(line) > 120], [])
    check("colour, though not on a terminal", "\033" in text, False)
    check("the verdict", "ok   random-1m: 32 folios: 32" in text, True)
    text = bench("--size", "32M", "--runs", "1", "--ablation", "--only",
                 "random-1m")
    check("ablation", bool(re.search(r"off .* 8,192 .*order_fallbacks", text)),
          True)


def check_constants():
    """The counts that the command knows by heart are the model's."""
    rows = {r["name"]: r["model_folios"] for r in
            json.loads(bench("--list", "--json"))}
    for mib, count in (("1024", 2000), ("256", 500)):
        size = int(mib) * MIB
        check(f"model, random-256k, {mib} MiB", rows["random-256k"][mib],
              sum(random_reads(size, count)[0]))
        check(f"model, sequential, {mib} MiB", rows["sequential"][mib],
              sum(stream_reads(size, MIB, 8192, 1280, False)[0]))


def settings():
    queue = f"/sys/block/{os.environ.get('RIG_DEVICE')}/queue"
    if not os.environ.get("RIG_DEVICE"):
        return None
    return [open(f"{queue}/{name}").read() for name in
            ("read_ahead_kb", "max_sectors_kb")]


def check_interrupted():
    """Ctrl-C: nothing is left, and the device is as it was."""
    before = settings()
    there = set(os.listdir(WORK))
    process = subprocess.Popen(
        [RACACHE, "bench", "--dir", WORK, "--size", "64M", "--only", "half-1m"],
        env=clean_environment(), stdout=subprocess.DEVNULL)
    for _ in range(200):  # until it measures
        time.sleep(0.02)
        children = subprocess.run(["pgrep", "-P", str(process.pid)],
                                  capture_output=True, check=False).stdout
        if children:
            break
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    check("exit status of an interrupted run", process.wait(20), 130)
    check("left behind", set(os.listdir(WORK)) - there, set())
    check("settings of the device", settings(), before)
    check("child", os.path.exists(f"/proc/{children.decode().split()[0]}")
          if children else False, False)


def main():
    check_rows()
    size = 32 * MIB
    make_data(size)
    check_large_forced(size)
    check_half_window(size)
    check_single_lookup(size)
    check_overlap_skip(size)
    check_table()
    check_constants()
    check_interrupted()
    for failure in failures:
        print("FAILED:", failure)
    print("FAIL" if failures else "PASS")
    sys.exit(bool(failures))


if "RIG" in os.environ:
    WORK = os.environ["RIG"]
    main()
if os.geteuid() == 0:
    status = subprocess.run([ROOT + "/tests/lib/rig.sh", "-s", "256", "ext4",
                             sys.executable, *sys.argv], check=False).returncode
    if status != 77:
        sys.exit(status)
os.makedirs(WORK, exist_ok=True)
with tempfile.TemporaryDirectory(dir=WORK) as WORK:
    main()
