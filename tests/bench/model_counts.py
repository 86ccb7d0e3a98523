# SPDX-License-Identifier: MIT
"""What the model of the policy says about the rows of `racache bench`."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "model"))
import ra_model  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20


def splitmix64(state):
    """The generator of the command's random numbers."""
    while True:
        state = (state + 0x9E3779B97F4A7C15) & ra_model.WORD
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & ra_model.WORD
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & ra_model.WORD
        yield z ^ (z >> 31)


def model(size, read_ahead_kb, max_sectors_kb, large=True, half=True):
    m = ra_model.Model(size, read_ahead_kb // 4, max_sectors_kb // 4, 9, large,
                       half)
    return m, m.open()


def counts(m):
    """Folios by order, and device reads if each range is one."""
    folios = [0] * 10
    for run in m.ranges:
        for folio in run:
            folios[folio.order] += 1
    return folios, len(m.ranges)


def random_reads(size, count, block=256 * KIB):
    m, stream = model(size, 512, 1280)
    numbers = splitmix64(1)
    for _ in range(count):
        m.read(stream, next(numbers) % (size // block) * block, block)
    return counts(m)


def stream_reads(size, block, read_ahead_kb, max_sectors_kb, page_first,
                 half=True):
    m, stream = model(size, read_ahead_kb, max_sectors_kb, half=half)
    at = 0
    if page_first:
        at = m.read(stream, 0, 4096)
    while at < size:
        at += m.read(stream, at, block)
    return counts(m)


def pages_read(size, count):
    """How many different pages that many random numbers name."""
    numbers = splitmix64(1)
    return len({next(numbers) % (size // 4096) for _ in range(count)})
