# SPDX-License-Identifier: MIT
"""Executable model of the readahead policy.

It says in the plainest way it can what core/readahead.h must decide: one file,
one device, a page cache that is a dictionary, reads that complete at once. It
is written for comparison, not for speed: every large folio is found by trial
and error, every scan goes page by page. ra_vectors.py runs it.
"""

PAGE = 4096
WORD = (1 << 64) - 1
BATCH = 31          # folios a read looks up at a time
FORCED_RUN = 512    # pages a forced request handles at a time
ENOUGH = 10         # no order is refused memory


def round_down(x, a):
    return x & ~(a - 1)


def floor_log2(x):
    return x.bit_length() - 1


def trailing_zeros(x):
    return (x & -x).bit_length() - 1


def init_size(request, most):
    size = 1 << (request - 1).bit_length()
    if size <= most // 32:
        return size * 4
    return size * 2 if size <= most // 4 else most


def next_size(current, most):
    if current < most // 16:
        return current * 4
    return current * 2 if current <= most // 2 else most


def half_window_align(start, size, align):
    """Halve while a trim that leaves something leaves less than half."""
    while align > 1:
        end = round_down(start + size, align)
        if end <= start or (end - start) * 2 >= size:
            break
        align //= 2
    return align


class Folio:
    def __init__(self, index, order, mark):
        self.index, self.order, self.mark = index, order, mark
        self.end = index + (1 << order)


class Stream:
    def __init__(self, ra_pages):
        self.start = self.size = self.async_size = self.order = 0
        self.ra_pages = ra_pages
        self.prev_pos = -1
        self.random = False


class Model:
    def __init__(self, size, ra_pages, io_pages, max_order, large_forced,
                 half_window):
        self.size, self.io_pages, self.max_order = size, io_pages, max_order
        self.device_ra_pages = ra_pages
        self.large_forced, self.half_window = large_forced, half_window
        self.no_memory_from = ENOUGH
        self.cache = {}             # page -> Folio
        self.batch = []             # inserted, not yet submitted
        self.windows, self.ranges, self.dropped = [], [], []

    def open(self):
        return Stream(self.device_ra_pages)

    @property
    def last_page(self):
        return (self.size - 1) // PAGE

    # The cache.

    def insert(self, index, order, mark, reserve=False):
        """None, "memory" or "collision"."""
        if order >= self.no_memory_from and not reserve:
            return "memory"
        pages = range(index, index + (1 << order))
        if any(page in self.cache for page in pages):
            return "collision"
        folio = Folio(index, order, mark)
        for page in pages:
            self.cache[page] = folio
        self.batch.append(folio)
        return None

    def submit(self):
        if self.batch:
            self.ranges.append(self.batch)
        self.batch = []

    def next_hole(self, start, scan):
        for page in range(start, start + scan):
            if page not in self.cache:
                return page
        return start + scan

    def previous_hole(self, start, scan):
        for page in range(start, start - scan, -1):
            if page < 0:
                return WORD
            if page not in self.cache:
                return page
        return start - scan + 1

    # Layout.

    def unbounded(self, index, pages, lookahead):
        mark = index + pages - lookahead if lookahead <= pages else None
        limit = self.max_order if self.large_forced else 0
        end = index + pages
        while index < end:
            order = min(limit, floor_log2(end - index))
            if index:
                order = min(order, trailing_zeros(index))
            while True:
                marked = mark is not None and \
                    round_down(mark, 1 << order) == index
                failure = self.insert(index, order, marked)
                if not failure or not order:
                    break
                order -= 1
                if failure == "memory":
                    limit = order
            if failure == "memory":
                break
            if failure:
                self.submit()
            index += 1 << order
        self.submit()

    def bounded(self, index, pages, lookahead):
        if self.size == 0 or index > self.last_page:
            return
        pages = min(pages, self.last_page - index + 1)
        self.unbounded(index, pages, lookahead)

    def force(self, stream, index, pages, clamp=True):
        if index > self.last_page:
            return
        pages = min(pages, max(self.io_pages, stream.ra_pages) if clamp
                    else self.last_page - index + 1)
        if pages:
            self.log("f", index, pages, 0, 0)
        while pages:
            run = min(pages, FORCED_RUN)
            self.bounded(index, run, 0)
            index += run
            pages -= run

    def ordered(self, stream, kind, kept_more=False):
        start, size, ahead = stream.start, stream.size, stream.async_size
        self.log(kind, start, size, ahead, stream.order, kept_more)
        if not self.max_order:
            stream.order = 0
            self.bounded(start, size, ahead)
            return
        stream.order = min(self.max_order, stream.order, floor_log2(size))
        mark, index, failure = start + size - ahead, start, None
        limit = min(self.last_page, start + size - 1)
        while index <= limit:
            order = stream.order
            if index % (1 << order):
                order = trailing_zeros(index)
            while index + (1 << order) - 1 > limit:
                order -= 1
            failure = self.insert(index, order,
                                  round_down(mark, 1 << order) == index)
            if failure:
                break
            index += 1 << order
        self.submit()
        if failure:
            self.bounded(index, start + size - index, ahead)

    def log(self, kind, start, size, lookahead, order, kept_more=False):
        self.windows.append((kind, start, size, lookahead, order, kept_more))

    # Decisions.

    def max_pages(self, stream, request):
        if request > stream.ra_pages and self.io_pages > stream.ra_pages:
            return min(request, self.io_pages)
        return stream.ra_pages

    def on_miss(self, stream, index, request):
        if not stream.ra_pages:
            self.force(stream, index, 1)
            return
        if stream.random:
            self.force(stream, index, request)
            return
        most = self.max_pages(stream, request)
        previous = (stream.prev_pos & WORD) // PAGE
        if index == 0 or request > most or (index - previous) & WORD <= 1:
            size = init_size(request, most)
            ahead = size - request if size > request else size // 2
            self.new_window(stream, "i", index, size, ahead)
            return
        hole = self.previous_hole(index - 1, most)
        history = (index - hole - 1) & WORD
        if history <= request:
            self.log("s", index, request, 0, 0)
            self.bounded(index, request, 0)
            return
        if hole == WORD:
            history *= 2
        self.new_window(stream, "c", index, min(history + request, most), 1)

    def new_window(self, stream, kind, start, size, ahead):
        stream.start, stream.size, stream.async_size = start, size, ahead
        stream.order = 0
        self.ordered(stream, kind)

    def on_mark(self, stream, folio, request):
        if not stream.ra_pages:
            return
        folio.mark = False
        most = self.max_pages(stream, request)
        mark = stream.start + stream.size - stream.async_size
        if folio.index == round_down(mark, folio.end - folio.index):
            kind = "a"
            stream.start += stream.size
            stream.size = max(stream.size, next_size(stream.size, most))
        else:
            kind = "g"
            hole = self.next_hole(folio.index + 1, most)
            if hole - folio.index > most:
                return
            stream.start = hole
            stream.size = next_size(hole - folio.index + request, most)
        stream.order += 2
        kept_more = self.trim(stream, most)
        stream.async_size = stream.size
        self.ordered(stream, kind, kept_more)

    def trim(self, stream, most):
        def kept(align):
            end = round_down(stream.start + stream.size, align)
            return end - stream.start if end > stream.start else stream.size
        align = 1 << min(stream.order, trailing_zeros(most))
        plain = size = kept(align)
        if self.half_window:
            size = kept(half_window_align(stream.start, stream.size, align))
        stream.size = size
        return size != plain

    # What programs call.

    def batch_at(self, page, end):
        found = []
        while page < end and page in self.cache and len(found) < BATCH:
            folio = self.cache[page]
            found.append(folio)
            if folio.mark:
                break
            page = folio.end
        return found

    def get_folios(self, stream, page, end):
        found = self.batch_at(page, end)
        if not found:
            self.on_miss(stream, page, end - page)
            found = self.batch_at(page, end)
        if not found:
            self.insert(page, 0, False, reserve=True)
            self.submit()
            found = [self.cache[page]]
        if found[-1].mark:
            self.on_mark(stream, found[-1], end - found[-1].index)
        return found

    def read(self, stream, pos, count):
        begin, end = pos, pos + count
        while pos < min(end, self.size):
            found = self.get_folios(stream, pos // PAGE, -(-end // PAGE))
            pos = min(end, self.size, found[-1].end * PAGE)
        if pos > begin:
            stream.prev_pos = pos
        return pos - begin

    def advise(self, stream, advice):
        stream.random = advice == 1
        if advice != 1:
            stream.ra_pages = self.device_ra_pages * (2 if advice else 1)

    def willneed(self, stream, offset, length, clamp=True):
        last = offset + length - 1 if length else WORD >> 1
        first = offset // PAGE
        self.force(stream, first, last // PAGE - first + 1, clamp)

    def dontneed(self, offset, length):
        last = offset + length - 1 if length else WORD >> 1
        first, end = -(-offset // PAGE), (last + 1) // PAGE
        if last == self.size - 1:
            end = self.last_page + 1
        for folio in set(self.cache.values()):
            if folio.index >= first and folio.end <= end:
                self.dropped.append((folio.index, folio.end - 1))
                for page in range(folio.index, folio.end):
                    del self.cache[page]

    def marks(self):
        return {f.index for f in set(self.cache.values()) if f.mark}
