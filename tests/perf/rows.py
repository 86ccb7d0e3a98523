# SPDX-License-Identifier: MIT
"""The rows of the harness: what is read, by whom, and what is hoped for.

A contestant is a way to run the reader: `kernel`, `racache`, or `memory` (the
same bytes by memcpy from huge pages). A figure is the ratio of two
contestants' times for a byte, and its target.
"""
import dataclasses

KIB, MIB = 1 << 10, 1 << 20


@dataclasses.dataclass
class Contestant:
    name: str
    via: str  # kernel, racache, memory, fio
    options: dict = dataclasses.field(default_factory=dict)
    environment: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Figure:
    label: str
    slow: str  # the ratio is time of `slow` / time of `fast`
    fast: str
    target: float
    at_most: bool = False  # else: at least


@dataclasses.dataclass
class Row:
    name: str
    what: str
    options: dict
    contestants: list
    figures: list
    span: int = 0            # 0: the whole file
    calls: int = 0           # 0: the span once
    cold: bool = False       # a new process and empty caches for each round
    page_cache: bool = False  # cold, but in the kernel's page cache
    fresh: bool = False      # the cache's memory has not been used before
    cache: float = 1.25      # of the file's size
    disk: bool = False       # on a real disk, not where the others are


def pair(memory=False, **environment):
    them = [Contestant("kernel", "kernel"),
            Contestant("racache", "racache", {}, environment)]
    return them + ([Contestant("memory", "memory")] if memory else [])


def faster(target, limit=None):
    figures = [Figure("kernel/racache", "kernel", "racache", target)]
    if limit is not None:
        figures.append(Figure("racache/memory", "racache", "memory", limit, True))
    return figures


def hot(name, what, size, target, *, op="pread", random=True, span=0, calls=0,
        limit=None):
    options = {"op": op, "size": size, "random": random, "load": "read"}
    return Row(name, what, options, pair(limit is not None),
               faster(target, limit), span=span, calls=calls)


def threads_row(name, what, span, load, target):
    them = [Contestant(f"{via}-{n}", via, {"threads": n})
            for via in ("kernel", "racache", "memory") for n in (1, 2)]
    return Row(name, what,
               {"op": "pread", "size": 4096, "random": True, "load": load}, them,
               [Figure("2 threads/1", "racache-1", "racache-2", target),
                Figure("kernel's 2/1", "kernel-1", "kernel-2", 0),
                Figure("memory's 2/1", "memory-1", "memory-2", 0)],
               span=span, calls=2_000_000)


def cold_sequential(size, target, fresh=False):
    label = f"{size // KIB}K"
    return Row(("fresh_" if fresh else "cold_") + f"seq_{label}",
               f"cold sequential read() {label}", {"op": "read", "size": size},
               pair(), faster(target), cold=True, fresh=fresh)


def cold_random(size, target, threads=1, fresh=False):
    label = f"{size // KIB}K"
    calls = {4: 20_000, 64: 4_000, 256: 2_000}[size // KIB]
    return Row(("fresh_" if fresh else "cold_") + f"random_{label}"
               + (f"_{threads}_threads" if threads > 1 else ""),
               f"cold random pread {label}, FADV_RANDOM, {threads} thread(s)",
               {"op": "pread", "size": size, "random": True,
                "fadvise-random": True, "threads": threads},
               pair(), faster(target), calls=calls, cold=True, fresh=fresh)


ROWS = [
    hot("hit_512", "512 B pread, hot 1 MiB", 512, 12, span=MIB, calls=2_000_000),
    hot("hit_4K", "4 KiB pread, hot 1 MiB", 4 * KIB, 5, span=MIB,
        calls=1_000_000, limit=2),
    hot("hit_4K_random", "4 KiB pread, random over the file", 4 * KIB, 2,
        calls=500_000, limit=1.15),
    hot("hit_64K_random", "64 KiB pread, random over the file", 64 * KIB, 1.25,
        calls=50_000, limit=1.05),
    # What memory itself allows over the whole file is less than 4.
    hot("read_4K", "read() 4 KiB, sequential, hot 1 MiB", 4 * KIB, 4, op="read",
        random=False, span=MIB, calls=1_000_000, limit=2),
    hot("read_4K_file", "read() 4 KiB, sequential, the file cached", 4 * KIB, 2,
        op="read", random=False, limit=1.15),
    threads_row("threads_4K", "two threads on one file, hot 1 MiB", MIB, "read",
                1.8),
    threads_row("threads_folio", "two threads on one 2 MiB folio", 2 * MIB,
                "whole", 1.7),
    Row("mixed_8_threads", "eight threads, three hits to a random read",
        {"op": "mixed", "size": 4 * KIB, "random": True, "threads": 8,
         "fadvise-random": True}, pair(), faster(1), calls=20_000, cold=True,
        cache=.5),
    *(cold_sequential(size, 2) for size in (4 * KIB, 64 * KIB, MIB)),
    *(cold_random(size, target) for size, target in
      ((4 * KIB, 1.5), (64 * KIB, 1.36), (256 * KIB, 1.6))),
    *(cold_random(size, 1.1, threads=8)
      for size in (4 * KIB, 64 * KIB, 256 * KIB)),
    *(cold_sequential(size, .9, fresh=True)
      for size in (4 * KIB, 64 * KIB, MIB)),
    *(cold_random(size, .9, fresh=True)
      for size in (4 * KIB, 64 * KIB, 256 * KIB)),
    Row("page_cache", "in the kernel's page cache, first pass, 64 KiB",
        {"op": "pread", "size": 64 * KIB}, pair(), faster(.8), cold=True,
        page_cache=True),
    Row("disk_seq_64K", "cold sequential read() 64 KiB on a real disk",
        {"op": "read", "size": 64 * KIB},
        pair() + [Contestant("fio", "fio")],
        faster(1) + [Figure("fio/racache", "fio", "racache", .9)], cold=True,
        disk=True),
]
