// SPDX-License-Identifier: MIT
// What a thread did last, kept to itself.
//
// Threads that read one file must not write to memory that they share, or its
// cache lines travel between the cores with each hit. So a hit is noted in the
// thread's own slot, and told to the file when the thread turns to another one
// or somebody asks for the statistics.
//
// Where the last read of a stream ended (prev_pos) is what its next miss is
// judged by. One thread, its `reader`, keeps that in the stream itself: the
// first to read it, later whoever missed last. Where threads share a stream,
// the others remember only the last one they hit, and tell it when they miss.
//
// Invariants
// - `file` is null or a File of this process's engine, whose memory stays; it
//   is taken away (settle) before the File serves another inode.
// - Only the owner writes anything but `file`. A signal handler on its thread,
//   or a settle() under way, may cost a count or two: never more than that.
// - A note may be of a stream that has gone, or of its memory's last life: it
//   is compared, never followed, and nothing but readahead goes by it.
#pragma once

#include <atomic>

#include "core/base.h"
#include "core/counters.h"

namespace racache {

class File;
struct OpenStream;

struct Recent {
  Count hits;               // plain hits of this slot, ever
  Count hit_bytes;          // and their bytes
  std::atomic<File*> file;  // relaxed: nothing is read on the strength of it
  Count file_hits;          // of it, not yet told
  OpenStream* stream;       // another's, hit last; null: none
  uint64_t position;        // where that hit ended
};

namespace recent {

// Another file than last time: tells the old one.
RACACHE_COLD void turn_to(Recent& mine, File& file);

RACACHE_HOT inline void count_hit(Recent& mine, File& file) {
  if (RACACHE_UNLIKELY(mine.file.load(std::memory_order_relaxed) != &file)) {
    turn_to(mine, file);
  }
  ++mine.file_hits;
}

// Takes what all threads have noted for `file`, or for any file if it is null.
void settle(File* file);

}  // namespace recent
}  // namespace racache
