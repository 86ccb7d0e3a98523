// SPDX-License-Identifier: MIT
// How far ahead of its reader a stream may plan: several windows in flight
// instead of the kernel's one (RACACHE_DEPTH; 1 is the kernel's way). Pure.
//
// The windows stay the policy's (readahead.h): each further one is what the
// policy plans when the mark of the one before is met, only earlier. Every
// window keeps its mark; when the reader meets it, it asks for the next one at
// the far end.
//
// Invariant: a pipeline reaches at most twice as far beyond the mark just met
// as the stream has come since its beginning, so that a short stream reads
// little in vain.
#pragma once

#include "core/readahead.h"

namespace racache {

struct Pipeline {
  static constexpr unsigned kFirstDepth = 2;
  static constexpr unsigned kMostDepth = 8;

  PageIndex origin = 0;  // where the stream began
  PageIndex first = 0;   // of its oldest window whose mark may not be met yet
  // Windows that `auto` allows now. Relaxed atomic accesses: readers that wait
  // raise it without the stream's lock.
  uint32_t depth = kFirstDepth;

  // The reader had to wait for a window of its stream: that was not enough.
  void starved() {
    const uint32_t now = __atomic_load_n(&depth, __ATOMIC_RELAXED);
    if (now < kMostDepth) __atomic_store_n(&depth, now + 1, __ATOMIC_RELAXED);
  }

  // A miss planned a window. One that continues the stream, whose windows ended
  // at `end`, keeps its history.
  void begin(PageIndex end, PageIndex start) {
    const bool goes_on = start >= first && start <= end;
    if (!goes_on) origin = start;
    first = start;
  }
  // The stream moved behind another reader's.
  void join(PageIndex start) { origin = first = start; }

  // The mark of one of the stream's windows other than its last.
  bool earlier_mark(const readahead::Stream& stream, PageIndex page) const {
    return stream.size != 0 && page >= first && page < stream.start;
  }

  // Whether one more window shall follow, as the mark at `mark` was met.
  // `configured`: RACACHE_DEPTH, negative for auto; `most_pages`: what memory
  // allows.
  bool wants_more(const readahead::Stream& stream, PageIndex mark,
                  int64_t configured, uint64_t most_pages) const {
    if (stream.size == 0 || stream.async_size == 0) return false;
    const uint64_t windows = configured < 0
                                 ? __atomic_load_n(&depth, __ATOMIC_RELAXED)
                                 : static_cast<uint64_t>(configured);
    if (windows <= 1 || mark < origin) return false;
    const uint64_t ahead = stream.start + 2 * uint64_t{stream.size} - mark;
    return stream.start < mark + windows * stream.size &&
           ahead <= 2 * (mark - origin) && ahead <= most_pages;
  }
};

}  // namespace racache
