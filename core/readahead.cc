// SPDX-License-Identifier: MIT
// What to read: the decisions of kernel-semantics.md 2.1, 2.2, 2.6, 2.8 and
// 2.9, and the rules of seeds 002 and 004. Seed 000 is a matter of layout
// (readahead_layout.cc); seed 003 is one of the read path.
//
// Invariants: a decision writes the stream only when it starts or moves a
// window; with ra_pages == 0, and for any forced request, never.
#include "core/readahead.h"

namespace racache::readahead {
namespace {

// 2.1. `request` is what is left of the read, so one stream's limit changes
// from window to window; the result need not be a power of two.
uint64_t max_pages(const Stream& stream, const Limits& limits,
                   uint64_t request) {
  const uint64_t most = stream.ra_pages;
  if (request <= most || limits.io_pages <= most) return most;
  return request < limits.io_pages ? request : limits.io_pages;
}

uint64_t next_power_of_two(uint64_t x) {  // x >= 1
  return x == 1 ? 1 : uint64_t{2} << floor_log2(x - 1);
}

// 2.2, the first window of a stream. Never above `most`.
uint64_t init_size(uint64_t request, uint64_t most) {
  const uint64_t rounded = next_power_of_two(request);
  if (rounded <= most / 32) return rounded * 4;
  if (rounded <= most / 4) return rounded * 2;
  return most;
}

// 2.2, the window after one of `current` pages. Never above `most`.
uint64_t next_size(uint64_t current, uint64_t most) {
  if (current < most / 16) return current * 4;
  if (current <= most / 2) return current * 2;
  return most;
}

Plan window_plan(const Stream& stream, Kind kind) {
  Plan plan;
  if (stream.size == 0) return plan;
  plan.kind = kind;
  plan.ordered = true;
  plan.start = stream.start;
  plan.pages = stream.size;
  plan.lookahead = stream.async_size;
  plan.order = stream.order;
  return plan;
}

void set_window(Stream& stream, PageIndex start, uint64_t size,
                uint64_t async_size) {
  stream.start = start;
  stream.size = static_cast<uint32_t>(size);
  stream.async_size = static_cast<uint32_t>(async_size);
}

// 2.8 step 4. prev_pos is the next byte, so a reader that skips one page still
// counts as sequential; before the first read it is -1, which is far away.
bool starts_stream(const Stream& stream, PageIndex index, uint64_t request,
                   uint64_t most) {
  // Readers that share the stream move it on meanwhile; any of their values is
  // as good as another.
  const int64_t position = __atomic_load_n(&stream.prev_pos, __ATOMIC_RELAXED);
  const PageIndex previous = static_cast<uint64_t>(position) >> kPageShift;
  return index == 0 || request > most || index - previous <= 1;
}

Plan init_window(Stream& stream, PageIndex index, uint64_t request,
                 uint64_t most) {
  const uint64_t size = init_size(request, most);
  set_window(stream, index, size, size > request ? size - request : size / 2);
  stream.order = 0;
  return window_plan(stream, Kind::kInit);
}

Plan standalone(PageIndex index, uint64_t request) {
  Plan plan;
  plan.kind = Kind::kStandalone;
  plan.start = index;
  plan.pages = request;
  return plan;
}

// 2.8 step 5: is there cached history right before `index` that is longer than
// the request? Then a stream was read there, whoever did it.
Plan context_window(Stream& stream, const View& view, PageIndex index,
                    uint64_t request, uint64_t most) {
  const PageIndex hole = view.previous_hole(view.file, index - 1, most);
  uint64_t history = index - hole - 1;  // a hole "at -1" wraps as it should
  if (history <= request) return standalone(index, request);
  if (hole == ~PageIndex{0}) history *= 2;  // from the file's beginning on
  const uint64_t size = history + request;
  set_window(stream, index, size < most ? size : most, 1);
  stream.order = 0;
  return window_plan(stream, Kind::kContext);
}

// Pages past the end of the file are holes; the view is not asked about them.
PageIndex next_hole(const Limits& limits, const View& view, PageIndex from,
                    uint64_t max_scan) {
  if (from >= limits.file_pages) return from;
  const uint64_t left = limits.file_pages - from;
  return view.next_hole(view.file, from, max_scan < left ? max_scan : left);
}

// 2.9 step 4: the mark that this stream's own last window left.
bool expected(const Stream& stream, PageIndex first, unsigned order) {
  const PageIndex mark = stream.start + stream.size - stream.async_size;
  return first == round_down(mark, uint64_t{1} << order);
}

void advance_window(Stream& stream, uint64_t most) {
  const uint64_t grown = next_size(stream.size, most);
  stream.start += stream.size;
  if (grown > stream.size) stream.size = static_cast<uint32_t>(grown);
}

// 2.9 step 5: join the other reader's stream behind what it has cached. False:
// more than `most` pages are ahead already.
bool join_window(Stream& stream, const Limits& limits, const View& view,
                 PageIndex first, uint64_t request, uint64_t most) {
  const PageIndex hole = next_hole(limits, view, first + 1, most);
  if (hole - first > most) return false;
  stream.start = hole;
  stream.size = static_cast<uint32_t>(next_size(hole - first + request, most));
  return true;
}

// 2.9 step 7: a window's end is rounded down so that the next one begins where
// large folios can; a window that would vanish is left as it is.
uint64_t trimmed_size(PageIndex start, uint64_t size, uint64_t align) {
  const PageIndex end = round_down(start + size, align);
  return end > start ? end - start : size;
}

// Seed 002, keep at least half of the window: the alignment is halved as long
// as the trim would leave something, but less than half.
uint64_t half_window_align(PageIndex start, uint64_t size, uint64_t align) {
  while (align > 1 && trimmed_size(start, size, align) * 2 < size) align /= 2;
  return align;
}

// The lowest set bit of `most`, not its highest, bounds the alignment: a device
// whose best request is 384 pages keeps it.
bool trim_window(Stream& stream, const Limits& limits, uint64_t most) {
  const unsigned by_limit = trailing_zeros(most);
  const uint64_t align = uint64_t{1}
                         << (stream.order < by_limit ? stream.order : by_limit);
  const uint64_t plain = trimmed_size(stream.start, stream.size, align);
  uint64_t kept = plain;
  if (limits.half_window) {
    kept = trimmed_size(stream.start, stream.size,
                        half_window_align(stream.start, stream.size, align));
  }
  set_window(stream, stream.start, kept, kept);
  return kept != plain;
}

}  // namespace

Plan on_miss(Stream& stream, const Limits& limits, const View& view,
             PageIndex index, uint64_t request) {
  if (index >= limits.file_pages || request == 0) return {};
  if (stream.ra_pages == 0) return on_force(stream, limits, index, 1, true);
  if (stream.random) return on_force(stream, limits, index, request, true);
  const uint64_t most = max_pages(stream, limits, request);
  if (starts_stream(stream, index, request, most)) {
    return init_window(stream, index, request, most);
  }
  return context_window(stream, view, index, request, most);
}

Plan on_mark(Stream& stream, const Limits& limits, const View& view,
             PageIndex first, unsigned order, uint64_t request) {
  if (stream.ra_pages == 0) return {};
  const uint64_t most = max_pages(stream, limits, request);
  Kind kind = Kind::kAsync;
  if (expected(stream, first, order)) {
    advance_window(stream, most);
  } else {
    if (!join_window(stream, limits, view, first, request, most)) return {};
    kind = Kind::kForeign;
  }
  stream.order = static_cast<uint16_t>(stream.order + 2);
  const bool trim_avoided = trim_window(stream, limits, most);
  Plan plan = window_plan(stream, kind);
  plan.trim_avoided = trim_avoided;
  return plan;
}

// Seed 004, a forced request leaves the stream alone: hence the const. The
// patch of that name used the stream's window as a memory of what was forced,
// and so made every later mark of a sequential reader look foreign. What it
// was after, a cheap answer when all is cached, the file's index gives.
Plan on_force(const Stream& stream, const Limits& limits, PageIndex index,
              uint64_t pages, bool clamp) {
  if (index >= limits.file_pages) return {};
  uint64_t most = limits.file_pages - index;
  if (clamp) {
    most =
        limits.io_pages > stream.ra_pages ? limits.io_pages : stream.ra_pages;
  }
  Plan plan;
  plan.start = index;
  plan.pages = pages < most ? pages : most;
  if (plan.pages != 0) plan.kind = Kind::kForced;
  return plan;
}

}  // namespace racache::readahead
