#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Random programs for the whole engine: the vectors of engine_model_test.

  engine_vectors.py FILE            write the vectors
  engine_vectors.py --check FILE    fail if FILE is not what would be written
  engine_vectors.py --live TEST SECONDS [SEED]
                                    run TEST on programs that nobody has seen,
                                    until the time is over; prints the seed

The policy is that of ra_model.py; EngineModel adds what the engine does beyond
the kernel. The form of the vectors is that of ra_vectors.py, but for
  h S off len   WILLNEED or readahead(2) as the engine takes it: all of it
"""
import os
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # the source tree stays as it is
from ra_model import PAGE, WORD, Model
from ra_vectors import Random, perform, write_or_check

BLOCK = 512         # pages of the largest folio
SMALL = 16          # pages of a read that can be a hidden stream's
ENOUGH_IN_ORDER = 8


class EngineModel(Model):
    """ra_model's rules and the engine's two intended differences."""

    def open(self):
        stream = super().open()
        stream.in_order = 0
        return stream

    def streams_after_all(self, stream, page, request):
        """Many small misses in order, though FADV_RANDOM was said."""
        previous = (stream.prev_pos & WORD) // PAGE
        if request > SMALL or (page - previous) & WORD > 1:
            stream.in_order = 0
            return False
        stream.in_order += 1
        return stream.in_order > ENOUGH_IN_ORDER

    def on_miss(self, stream, index, request):
        if stream.random and self.streams_after_all(stream, index, request):
            stream.random = False
            super().on_miss(stream, index, request)
            stream.random = True
        else:
            super().on_miss(stream, index, request)

    def hint(self, offset, length):
        """The whole range, cut where blocks end; nothing if all is there."""
        if offset >= self.size:
            return
        page, end = offset // PAGE, self.last_page + 1
        if 0 < length < self.size - offset:
            end = -(-(offset + length) // PAGE)
        if self.next_hole(page, end - page) == end:
            return
        while page < end:
            pages = min(end, page // BLOCK * BLOCK + BLOCK) - page
            self.log("f", page, pages, 0, 0)
            self.bounded(page, pages, 0)
            page += pages


CASES = 700
SIZES = (1, 4097, 65536, 100000, 37 * PAGE + 5, (1 << 20) + 1, 3 << 20,
         (8 << 20) - 17, 8 << 20, 9000001, 16 << 20)
DEVICES = ((32, 128), (32, 128), (32, 128), (32, 32), (32, 320), (0, 16),
           (0, 128), (1, 16), (9, 64), (16, 320), (65, 65), (33, 7), (7, 1),
           (64, 1024), (128, 128), (384, 384), (1024, 320), (512, 100))
ORDERS = (9, 9, 9, 9, 8, 6, 4, 2, 1, 0)
READS = (512, 4096, 4096, 5000, 8192, 16384, 65536, 131072, 200000, 1 << 20)
STYLES = ("sequential", "sizes", "strided", "random", "backward", "places",
          "readers", "hints", "advised", "mixed", "mixed", "mixed")


class Program:
    """One case: a model, three streams, and where each reader of them is."""

    def __init__(self, seed):
        self.random = r = Random(seed ^ 0x656e67696e65)
        self.size = r.choice(SIZES)
        self.setting = (self.size,) + r.choice(DEVICES) + (
            r.choice(ORDERS), int(r.chance(80)), int(r.chance(80)))
        self.model = EngineModel(*self.setting)
        self.streams = [self.model.open() for _ in range(3)]
        self.position = [0, r.below(self.size), r.below(self.size)]
        self.style = r.choice(STYLES)
        self.count = r.choice(READS)
        self.step = r.choice((0, 1, 2, 3, 5, 16)) * PAGE + PAGE
        self.place = 0

    def onward(self, stream):
        count = self.random.choice(READS) if self.style in ("sizes", "mixed") \
            else self.count
        pos = self.position[self.place]
        left = self.size - pos
        self.position[self.place] = pos + min(left, count) if left > 0 \
            else self.random.below(self.size)
        return ("r", stream, pos, count)

    def back(self, stream):
        end = self.position[self.place]
        pos = max(end - self.count, 0)
        self.position[self.place] = pos or self.size
        return ("r", stream, pos, max(end - pos, 1))

    def stride(self, stream):
        pos = self.position[self.place]
        self.position[self.place] = (pos + self.step) % self.size
        return ("r", stream, pos, PAGE)

    def anywhere(self, stream):
        r = self.random
        count = r.choice((1, 4096, 8192, 40000, self.count))
        return ("r", stream, r.below(self.size + 5000), count)

    def same_place(self, stream):
        """Where the reader just was: what it left is met by a stranger."""
        pos = max(self.position[self.place] - self.random.below(40) * PAGE, 0)
        return ("r", stream, pos, self.random.choice((4096, self.count)))

    def advice(self, stream):
        return ("a", stream, self.random.below(3))

    def hint(self, stream):
        r = self.random
        length = r.choice((0, 1, 4096, 65536, 300000, 1 << 20, 3 << 20))
        return ("h", stream, r.below(self.size + 5000), length)

    def drop(self, _):
        r = self.random
        length = r.choice((0, 4096, 20000, 65536, self.size))
        return ("d", r.below(self.size), length)

    def operation(self, number):
        r = self.random
        stream = r.below(3) if self.style in ("mixed", "hints") else 0
        self.place = 0
        if self.style == "readers":
            stream = self.place = number % 3
        elif self.style == "places":
            self.place = number & 1
        kinds = {
            "strided": (self.stride,) * 9 + (self.anywhere,),
            "random": (self.anywhere,) * 9 + (self.onward,),
            "backward": (self.back,) * 9 + (self.onward,),
            "hints": (self.hint,) * 4 + (self.onward,) * 3 + (self.drop,),
            "advised": (self.onward,) * 14 + (self.advice,),
            "mixed": (self.onward,) * 6 + (self.anywhere,) * 2 + (
                self.same_place,) * 2 + (self.advice, self.hint, self.drop),
        }.get(self.style, (self.onward,) * 24 + (
            self.anywhere, self.same_place, self.advice, self.hint, self.drop))
        return r.choice(kinds)(stream)

    def run(self, op):
        if op[0] != "h":
            return perform(self.model, self.streams, op)
        # perform() knows the hint by another name.
        self.model.willneed = lambda _, *range_, clamp: self.model.hint(*range_)
        return ["h"] + perform(self.model, self.streams, ("u",) + op[1:])[1:]

    def lines(self):
        yield "F " + " ".join(str(word) for word in self.setting)
        for number in range(8 + self.random.below(24)):
            yield " ".join(self.run(self.operation(number)))


def text_of(seeds):
    return "".join(line + "\n" for seed in seeds
                   for line in Program(seed).lines())


def live(test, seconds, seed):
    """Batches of programs until the time is over."""
    end = time.monotonic() + seconds
    print("seed %d" % seed, flush=True)
    done = 0
    while time.monotonic() < end or not done:
        first = seed + done
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as vectors:
            vectors.write(text_of(range(first, first + 50)))
            vectors.flush()
            env = dict(os.environ, RACACHE_ENGINE_VECTORS=vectors.name)
            if subprocess.run([test], env=env, check=False).returncode:
                print("these programs differ: seeds %d to %d" % (
                    first, first + 49))
                return 1
        done += 50
    print("%d programs agree" % done)
    return 0


def main(arguments):
    if arguments[0] == "--live":
        seed = int(arguments[3]) if len(arguments) > 3 else \
            time.time_ns() % 10**9 * 1000
        return live(arguments[1], float(arguments[2]), seed)
    return write_or_check(arguments, text_of(range(CASES)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
