// SPDX-License-Identifier: MIT
// Where the last read of a stream ended, as its threads keep it among them: see
// core/recent.h for who keeps what.
#pragma once

#include "core/cache.h"
#include "core/epoch.h"

namespace racache::prev_pos {

inline void set(OpenStream& stream, uint64_t end) {
  __atomic_store_n(&stream.stream.prev_pos, static_cast<int64_t>(end),
                   __ATOMIC_RELAXED);
}

inline uint64_t load(const int64_t& prev_pos) {
  return static_cast<uint64_t>(__atomic_load_n(&prev_pos, __ATOMIC_RELAXED));
}
inline uint64_t get(const OpenStream& stream) {
  return load(stream.stream.prev_pos);
}

// By a thread that is not the stream's reader, or becomes its first.
void note_elsewhere(ThreadSlot& slot, OpenStream& stream, uint64_t end);

// After a hit.
RACACHE_HOT inline void note(ThreadSlot& slot, OpenStream& stream,
                             uint64_t end) {
  if (RACACHE_LIKELY(stream.reader.load(std::memory_order_relaxed) == &slot)) {
    set(stream, end);
  } else {
    note_elsewhere(slot, stream, end);
  }
}

// Before a miss: the calling thread is the reader from here on.
void take_over(ThreadSlot& slot, OpenStream& stream);

}  // namespace racache::prev_pos
