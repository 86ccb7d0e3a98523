#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Whole processes, with the library and without it, in turn: medians, ratios
and their spread, and what else it cost.

    harness.py READER --dir FOLDER [--only ROW,...] [--rounds 5] [--json FILE]

The file that is read is made in FOLDER (or named by --file) and removed at the
end. The rounds of the contestants alternate, so that what the machine does
meanwhile meets them all. The cache's memory is populated before a cold row is
timed, but for the fresh_ rows. As root, the kernel's caches are dropped before
each cold round; otherwise only the file is. --smoke runs every row on a small
file and judges nothing but that they run.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from rows import MIB, ROWS


def make_file(path, size):
    with open(path, "wb") as file:
        for _ in range(size // MIB):
            file.write(os.urandom(MIB))
        file.flush()
        os.fsync(file.fileno())


def forget(path):
    """Out of the kernel's caches."""
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
    try:
        with open("/proc/sys/vm/drop_caches", "w") as knob:
            knob.write("1")
    except OSError:
        pass


def fetch(path):
    with open(path, "rb") as file:
        while file.read(MIB):
            pass


class Process:
    """A reader, ready to go."""

    def __init__(self, bench, row, contestant):
        span = row.span or bench.size
        options = {**row.options, **contestant.options}
        options.setdefault("file", bench.file)
        options["span"] = min(span, bench.size)
        options["calls"] = bench.calls(row, options)
        environment = dict(os.environ)
        environment.pop("LD_PRELOAD", None)
        if contestant.via == "racache":
            environment.update(self.settings(bench, row), **contestant.environment)
            if row.cold and not row.fresh:
                options["warm-up"] = bench.other
        if contestant.via == "memory":
            options["via-memory"] = True
        command = [bench.reader]
        for name, value in options.items():
            if value is True:
                command.append("--" + name)
            elif value is not False:
                command += ["--" + name, str(value)]
        self.process = subprocess.Popen(command, env=environment, text=True,
                                        stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        if self.process.stdout.readline() != "ready\n":
            sys.exit(f"{row.name}: {contestant.name} could not start")

    @staticmethod
    def settings(bench, row):
        return {"LD_PRELOAD": bench.library,
                "RACACHE_SIZE": str(int(bench.size * row.cache) + 64 * MIB),
                "RACACHE_POPULATE": "0" if row.fresh else "1",
                "RACACHE_STATS": "json:" + bench.stats}

    def go(self):
        print("go", file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        if self.process.wait() != 0:
            sys.exit("a reader failed")


class Fio:
    """The device's own speed: depth 8, past all caches."""

    def __init__(self, bench):
        self.command = [
            "fio", "--name=x", "--filename=" + bench.file, "--rw=read",
            "--bs=64k", "--direct=1", "--ioengine=io_uring", "--iodepth=8",
            f"--size={bench.size}", "--output-format=json"]

    def go(self):
        out = subprocess.run(self.command, capture_output=True, text=True)
        read = json.loads(out.stdout[out.stdout.index("{"):])["jobs"][0]["read"]
        return {"seconds": read["runtime"] / 1e3, "bytes": read["io_bytes"],
                "calls": read["total_ios"]}

    def end(self):
        pass


class Bench:
    def __init__(self, arguments, folder):
        self.smoke = arguments.smoke
        self.reader = arguments.reader
        self.library = arguments.library
        self.rounds = 1 if self.smoke else arguments.rounds
        self.file = arguments.file or os.path.join(folder, "racache-perf.data")
        self.other = os.path.join(folder, "racache-perf.other")
        self.stats = os.path.join(folder, "racache-perf.json")
        self.own = arguments.file is None
        if self.own:
            make_file(self.file, arguments.mib * MIB)
        make_file(self.other, MIB)
        self.size = os.path.getsize(self.file) // MIB * MIB

    def clean(self):
        for path in [self.other, self.stats] + ([self.file] if self.own else []):
            if os.path.exists(path):
                os.unlink(path)

    def calls(self, row, options):
        whole = options["span"] // options["size"]
        calls = row.calls or whole
        if row.cold and row.options["op"] != "mixed":
            calls = min(calls, whole)  # never twice the same block
        if row.options["op"] == "read":
            calls = calls // whole * whole or whole
        return max(calls // 1000, 64) if self.smoke and row.calls else calls

    def start(self, row, contestant):
        if contestant.via == "fio":
            return Fio(self)
        return Process(self, row, contestant)

    def cold_round(self, row, contestant):
        fetch(self.file) if row.page_cache else forget(self.file)
        process = self.start(row, contestant)
        if row.page_cache:
            fetch(self.file)
        else:
            forget(self.file)
        result = process.go()
        process.end()
        return result

    def run(self, row):
        results = {c.name: [] for c in row.contestants}
        if row.cold:
            for i in range(self.rounds):
                for c in turned(row.contestants, i):
                    results[c.name].append(self.cold_round(row, c))
            return results, self.statistics()
        processes = {c.name: self.start(row, c) for c in row.contestants}
        for process in processes.values():
            process.go()  # not counted
        for i in range(self.rounds):
            for c in turned(row.contestants, i):
                results[c.name].append(processes[c.name].go())
        for process in processes.values():
            process.end()
        return results, self.statistics()

    def statistics(self):
        try:
            with open(self.stats) as file:
                return json.load(file)
        except (OSError, ValueError):
            return {}


def turned(contestants, i):
    """Another one begins each time."""
    i %= len(contestants)
    return contestants[i:] + contestants[:i]


def median_of(results, key):
    return statistics.median(r.get(key, 0) for r in results)


def per_byte(results):
    return [r["seconds"] / r["bytes"] for r in results]


def ratio(results, figure):
    """Median against median; the spread is that of the single rounds."""
    slow, fast = per_byte(results[figure.slow]), per_byte(results[figure.fast])
    each = [a / b for a, b in zip(slow, fast)]
    value = statistics.median(slow) / statistics.median(fast)
    good = value <= figure.target if figure.at_most else value >= figure.target
    return {"figure": figure.label, "ratio": round(value, 3),
            "low": round(min(each), 3), "high": round(max(each), 3),
            "target": figure.target, "at_most": figure.at_most, "met": good}


def summary(results):
    seconds = statistics.median(per_byte(results))
    calls = median_of(results, "calls") or 1
    out = {"MB_per_s": round(1 / seconds / 1e6, 1),
           "ns_per_call": round(median_of(results, "seconds") / calls * 1e9, 1),
           "cpu_per_s": round(median_of(results, "cpu")
                              / median_of(results, "seconds"), 2),
           "faults": median_of(results, "faults"),
           "switches": median_of(results, "switches"),
           "device_MiB": round(median_of(results, "device_bytes") / MIB, 1)}
    if "hit_ns" in results[0]:
        for key in results[0]["hit_ns"]:
            out["hit_" + key] = statistics.median(r["hit_ns"][key] for r in results)
        medians = [max(r["median_of_thread"]) / max(1, r["hit_ns"]["p50"])
                   for r in results]
        out["slowest_thread"] = round(statistics.median(medians), 2)
    return out


def report(row, results, stats):
    arena = "fresh" if row.fresh else "populated"
    print(f"\n{row.name}: {row.what} (arena {arena})")
    entry = {"row": row.name, "what": row.what, "arena": arena, "by": {},
             "figures": [ratio(results, f) for f in row.figures],
             "rounds": results}
    for name, list_of in results.items():
        entry["by"][name] = summary(list_of)
        print(f"  {name:10}", "  ".join(
            f"{key} {value:g}" for key, value in entry["by"][name].items()))
    for f in entry["figures"]:
        sign = "at most" if f["at_most"] else "at least"
        print(f"  {f['figure']}: {f['ratio']:.2f} ({f['low']:.2f} to "
              f"{f['high']:.2f}), {sign} {f['target']:g}: "
              f"{'met' if f['met'] else 'MISSED'}")
    memory = stats.get("memory", {})
    if memory.get("used", 0) > 256 * MIB:  # there is a fixed part, too
        entry["metadata_percent"] = 100 * memory["metadata"] / memory["used"]
        print(f"  metadata: {entry['metadata_percent']:.2f} % of the memory used")
    return entry


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("reader")
    parser.add_argument("--library", default=os.environ.get("RACACHE_LIBRARY"))
    parser.add_argument("--dir", default=".")
    parser.add_argument("--file")
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--json")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--disk", action="store_true",
                        help="FOLDER is on a real disk: that row, too")
    parser.add_argument("--smoke", action="store_true")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.mib = 8
    return arguments


def main():
    arguments = parse()
    wanted = [name for name in arguments.only.split(",") if name]
    rows = [row for row in ROWS
            if (row.name in wanted if wanted else arguments.disk or not row.disk)]
    if arguments.list:
        return print("\n".join(f"{row.name:24}{row.what}" for row in rows))
    if not rows or not arguments.library:
        sys.exit("no such row, or no library")
    with tempfile.TemporaryDirectory(dir=arguments.dir) as folder:
        bench = Bench(arguments, folder)
        try:
            entries = [report(row, *bench.run(row)) for row in rows]
        finally:
            bench.clean()
    if arguments.json:
        with open(arguments.json, "w") as out:
            json.dump({"rows": entries, "mib": bench.size // MIB,
                       "rounds": bench.rounds}, out, indent=1)
    missed = [e["row"] for e in entries if not all(f["met"] for f in e["figures"])]
    if not arguments.smoke:
        print(f"\n{len(entries) - len(missed)} of {len(entries)} rows met; missed:",
              ", ".join(missed) or "none")


main()
