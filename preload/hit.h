// SPDX-License-Identifier: MIT
// The first thing that read(2) and pread(2) try: a plain hit. Anything that is
// not one comes out as 0 (a plain hit has bytes) with nothing done, and takes
// the ways of serve.h. Always inline: this is the hot path of the hooks.
#pragma once

#include "core/epoch.h"
#include "preload/open_file.h"

namespace racache::cache {
struct Plain;  // core/hit.h
}

namespace racache::preload {

namespace plain {

// Above the user's part of the address space lies nothing that a program can
// own, and the first page is not mapped.
#if defined(__x86_64__)
inline constexpr uint64_t kUserEnd = uint64_t{1} << 47;
#else
inline constexpr uint64_t kUserEnd = uint64_t{1} << 48;
#endif

// More than a folio holds is not plain, so one comparison does for a buffer.
inline bool fit(const void* buffer, size_t count) {
  const uint64_t from = reinterpret_cast<uint64_t>(buffer);
  return count - 1 < kBlockSize &&
         from - kPageSize < kUserEnd - kPageSize - kBlockSize;
}

// Acquire: pairs with the adopter's publication of `file`.
inline bool cached(const OpenFile& open, uint32_t process) {
  return open.status.load(std::memory_order_acquire) ==
         status_word(process, Stage::kCached);
}

// A contested number is not plain; number 0 is never cached.
template <class Hit>
[[gnu::always_inline]] inline size_t in_section(int fd, uint32_t process,
                                                ThreadSlot& slot,
                                                const Hit& hit) {
  const uint32_t number = static_cast<uint32_t>(tracked_word(fd));
  if (RACACHE_UNLIKELY((number & kContested) != 0)) return 0;
  OpenFile& open = open_file(number);
  if (RACACHE_UNLIKELY(!cached(open, process))) return 0;
  // Null when it is just being given up.
  File* file = open.file.load(std::memory_order_relaxed);
  return RACACHE_LIKELY(file != nullptr) ? hit(*file, open, slot) : 0;
}

// Calls hit(file, open, slot) in a section of its own, if the number, which was
// found to be tracked, is that of a cached description. The slot is read in the
// section, which from then on keeps what it names. Inside another section (a
// signal handler) it is 0.
template <class Hit>
[[gnu::always_inline]] inline size_t attempt(int fd, const Hit& hit) {
  uint32_t process;
  ThreadSlot* slot = epoch::own(process);
  if (RACACHE_UNLIKELY(slot == nullptr || !epoch::enter(*slot))) return 0;
  const size_t got = in_section(fd, process, *slot, hit);
  epoch::leave(*slot, true);
  return got;
}

}  // namespace plain

template <class Cache = cache::Plain>
[[gnu::always_inline]] inline size_t hit_at(int fd, void* buffer, size_t count,
                                            off_t offset) {
  if (RACACHE_UNLIKELY(!plain::fit(buffer, count) || !Cache::current()))
    return 0;
  // A negative offset lies beyond every file.
  return plain::attempt(fd, [=](File& file, OpenFile& open, ThreadSlot& slot) {
    return Cache::hit(file, open.stream, slot, buffer, count,
                      static_cast<uint64_t>(offset));
  });
}

// At the description's position, which moves on.
template <class Cache = cache::Plain>
[[gnu::always_inline]] inline size_t hit_next(int fd, void* buffer,
                                              size_t count) {
  if (RACACHE_UNLIKELY(!plain::fit(buffer, count) || !Cache::current()))
    return 0;
  return plain::attempt(fd, [=](File& file, OpenFile& open, ThreadSlot& slot) {
    return Cache::hit_next(file, open.stream, slot, buffer, count,
                           open.position);
  });
}

}  // namespace racache::preload
