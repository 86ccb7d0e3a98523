// SPDX-License-Identifier: MIT
// The first thing that read(2) and pread(2) try: a plain hit. Anything that is
// not one comes out as 0 (a plain hit has bytes) with nothing done, and takes
// the ways of serve.h. Always inline: this is the hot path of the hooks.
#pragma once

#include "core/epoch.h"
#include "preload/open_file.h"

namespace racache::preload {

namespace plain {

// More than a folio holds is not plain. The bound lets one comparison do for a
// buffer: above the user's part of the address space lies nothing that a
// program can own, and the first page is not mapped.
#if defined(__x86_64__)
inline constexpr uint64_t kUserEnd = uint64_t{1} << 47;
#else
inline constexpr uint64_t kUserEnd = uint64_t{1} << 48;
#endif
inline bool fit(const void* buffer, size_t count) {
  const uint64_t from = reinterpret_cast<uint64_t>(buffer);
  return count - 1 < kBlockSize &&
         from - kPageSize < kUserEnd - kPageSize - kBlockSize;
}

// Cached in the process that the thread's slot belongs to. Acquire: pairs with
// the adopter's publication of `file`.
inline bool cached(const OpenFile& open) {
  return open.status.load(std::memory_order_acquire) ==
         status_word(epoch::process_of_slot(), Stage::kCached);
}

// Calls hit(file, open, slot) in a section of its own, if the number is that of
// a cached description. The slot is read in the section, which from then on
// keeps what it names. Inside another section (a signal handler) it is 0.
template <class Hit>
RACACHE_HOT inline size_t attempt(int fd, const Hit& hit) {
  ThreadSlot* slot = epoch::self();
  if (RACACHE_UNLIKELY(slot == nullptr || !epoch::enter(*slot))) return 0;
  size_t got = 0;
  const uint64_t word = slot_word(fd);
  const uint32_t number = static_cast<uint32_t>(word);
  OpenFile& open = open_file(number & kNumberMask);
  // Number 0 is never cached, and a contested one is not plain.
  if (RACACHE_LIKELY((number & kContested) == 0 && cached(open))) {
    // Null when it is just being given up.
    File* file = open.file.load(std::memory_order_relaxed);
    if (RACACHE_LIKELY(file != nullptr)) got = hit(*file, open, *slot);
  }
  epoch::leave(*slot, true);
  return got;
}

}  // namespace plain

RACACHE_HOT inline size_t hit_at(int fd, void* buffer, size_t count,
                                 off_t offset) {
  if (RACACHE_UNLIKELY(!plain::fit(buffer, count))) return 0;
  // A negative offset lies beyond every file.
  return plain::attempt(fd, [=](File& file, OpenFile& open, ThreadSlot& slot) {
    return cache::hit(file, open.stream, slot, buffer, count,
                      static_cast<uint64_t>(offset));
  });
}

// At the description's position, which moves on.
RACACHE_HOT inline size_t hit_next(int fd, void* buffer, size_t count) {
  if (RACACHE_UNLIKELY(!plain::fit(buffer, count))) return 0;
  return plain::attempt(fd, [=](File& file, OpenFile& open, ThreadSlot& slot) {
    return cache::hit_next(file, open.stream, slot, buffer, count,
                           open.position);
  });
}

}  // namespace racache::preload
