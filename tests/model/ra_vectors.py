#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Random programs run through the model: the vectors of readahead_model_test.

  ra_vectors.py FILE           write the vectors
  ra_vectors.py --check FILE   fail if FILE is not what would be written

A vector file is lines of words. A case begins with
  F bytes ra_pages io_pages max_order large_forced half_window
and goes on with operations, each with all that it changed behind a colon:
  r S pos count   read on stream S        a S 0|1|2   NORMAL RANDOM SEQUENTIAL
  w S off len     WILLNEED                u S off len the same, not clamped
  d off len       DONTNEED                n K         order >= K: no memory
  i c s f a g START+SIZE/LOOKAHEAD[@ORDER][!]
                  a window: init, context, standalone, forced, async, foreign;
                  ! the half-window rule kept more of it
  =PAGE:NxO,...   a device range: N folios of order O, and so on
  +PAGE -PAGE     this folio has the mark now, has it no more
  ~FIRST-LAST     pages dropped
"""
import os
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from ra_model import ENOUGH, PAGE, WORD, Model

# What an operation changed, as words.

def window_word(window):
    kind, start, size, lookahead, order, kept_more = window
    return "%s%d+%d/%d%s%s" % (kind, start, size, lookahead,
                               "@%d" % order if order else "",
                               "!" if kept_more else "")


def range_word(folios):
    runs = []
    for folio in folios:
        if runs and runs[-1][1] == folio.order:
            runs[-1][0] += 1
        else:
            runs.append([1, folio.order])
    return "=%d:%s" % (folios[0].index, ",".join("%dx%d" % tuple(r)
                                                 for r in runs))


def dropped_words(dropped):
    runs = []
    for first, last in sorted(dropped):
        if runs and runs[-1][1] == first - 1:
            runs[-1][1] = last
        else:
            runs.append([first, last])
    return ["~%d-%d" % tuple(r) for r in runs]


def perform(model, streams, op):
    """Runs one operation; the words of its line."""
    code, args = op[0], op[1:]
    before = model.marks()
    model.windows, model.ranges, model.dropped = [], [], []
    if code == "r":
        model.read(streams[args[0]], *args[1:])
    elif code == "a":
        model.advise(streams[args[0]], args[1])
    elif code in "wu":
        model.willneed(streams[args[0]], *args[1:], clamp=code == "w")
    elif code == "d":
        model.dontneed(*args)
    else:
        model.no_memory_from = args[0]
    after = model.marks()
    return [str(word) for word in op] + [":"] + \
        [window_word(w) for w in model.windows] + \
        [range_word(r) for r in model.ranges] + \
        ["+%d" % m for m in sorted(after - before)] + \
        ["-%d" % m for m in sorted(before - after)] + \
        dropped_words(model.dropped)


# Random programs.

class Random:
    """splitmix64: the same numbers whatever the version of Python."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state + 0x9e3779b97f4a7c15) & WORD
        z = self.state
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 & WORD
        z = (z ^ z >> 27) * 0x94d049bb133111eb & WORD
        return (z ^ z >> 31) % n

    def choice(self, items):
        return items[self.below(len(items))]

    def chance(self, percent):
        return self.below(100) < percent


CASES = 4500
SIZES = (1, 4095, 4096, 4097, 65536, 100000, 37 * PAGE + 5, 1 << 20,
         (1 << 20) + 1, 3 << 20, (8 << 20) - 17, 8 << 20, 8 << 20, 16 << 20)
DEVICES = ((32, 128), (32, 128), (32, 128), (32, 32), (32, 320), (0, 16),
           (1, 16), (9, 64), (16, 320), (65, 65), (64, 1024), (128, 128),
           (384, 384), (1024, 320))
ORDERS = (9, 9, 9, 9, 4, 0)
READS = (512, 4096, 4096, 5000, 16384, 65536, 131072, 200000, 1 << 20)
STYLES = ("sequential", "mixed", "mixed", "random", "strided", "two files",
          "two places", "scarce")


class Program:
    """One case: a model, two streams, and where each reader of them is."""

    def __init__(self, seed):
        self.random = r = Random(seed)
        self.size = r.choice(SIZES)
        self.setting = (self.size,) + r.choice(DEVICES) + (
            r.choice(ORDERS), int(r.chance(88)), int(r.chance(80)))
        self.model = Model(*self.setting)
        self.streams = [self.model.open(), self.model.open()]
        self.position = [0, r.below(self.size)]
        self.style = r.choice(STYLES)
        self.count = r.choice(READS)
        self.step = r.choice((0, 1, 2, 3, 5, 16)) * PAGE + PAGE

    def reader(self, number):
        """Stream and place of the operation of this number."""
        if self.style == "two places":
            return 0, number & 1
        if self.style == "two files":
            return number & 1, number & 1
        return int(self.style == "mixed" and self.random.chance(30)), 0

    def onward(self, stream, place):
        pos = self.position[place]
        left = self.size - pos
        self.position[place] = pos + min(left, self.count) if left > 0 \
            else self.random.below(self.size)
        return ("r", stream, pos, self.count)

    def stride(self, stream, place):
        pos = self.position[place]
        self.position[place] = (pos + self.step) % self.size
        return ("r", stream, pos, PAGE)

    def anywhere(self, stream, _):
        r = self.random
        count = r.choice((1, 4096, 8192, 40000, self.count))
        return ("r", stream, r.below(self.size + 5000), count)

    def advice(self, stream, _):
        return ("a", stream, self.random.below(3))

    def hint(self, stream, _):
        r = self.random
        length = r.choice((0, 1, 4096, 65536, 300000, 1 << 20, self.size))
        return (r.choice("wwu"), stream, r.below(self.size + 5000), length)

    def drop(self, *_):
        r = self.random
        length = r.choice((0, 4096, 20000, 65536, self.size))
        return ("d", r.below(self.size), length)

    def memory(self, *_):
        return ("n", self.random.choice((1, 1, 2, 3, 6, ENOUGH)))

    def operation(self, number):
        r = self.random
        kinds = {
            "strided": (self.stride,),
            "random": (self.anywhere,) * 9 + (self.onward,),
            "mixed": (self.onward,) * 3 + (self.anywhere,) * 2 + (
                self.advice, self.hint, self.hint, self.drop),
            "scarce": (self.onward,) * 4 + (
                self.anywhere, self.hint, self.hint, self.drop, self.memory),
        }.get(self.style, (self.onward,) * 24 + (
            self.anywhere, self.advice, self.hint, self.drop))
        return r.choice(kinds)(*self.reader(number))

    def lines(self):
        yield "F " + " ".join(str(word) for word in self.setting)
        for number in range(5 + self.random.below(14)):
            op = self.operation(number)
            yield " ".join(perform(self.model, self.streams, op))


def vectors():
    for seed in range(CASES):
        yield from Program(seed).lines()


def write_or_check(arguments, text):
    """FILE: writes the text there. --check FILE: compares; the exit status."""
    if arguments[0] != "--check":
        with open(arguments[0], "w", encoding="ascii") as out:
            out.write(text)
        return 0
    with open(arguments[1], encoding="ascii") as committed:
        if committed.read() == text:
            return 0
    print("%s is not what %s writes" % (arguments[1],
                                         os.path.basename(sys.argv[0])))
    return 1


def main(arguments):
    return write_or_check(arguments,
                          "".join(line + "\n" for line in vectors()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
