// SPDX-License-Identifier: MIT
// The plain hit: one buffer, one folio that is up to date and was read before.
// Straight down, nothing is written but the caller's buffer and the thread's
// own slot; whatever else comes up is left to read_hit(), which meets it again.
//
// Nothing is remembered from one hit to the next, so nothing can be out of
// date. Each looks first whether leases are looked after; then, inside its
// section, at the file's state (a lease given up is kBroken before the writer
// goes on), at the index, and at the folio's word
// (evicted and dropped folios are out of the index first; their memory, like
// the File's own, is used again only when the section is over). Of what happens
// after the look, a read that began before it may know nothing.
//
// In a header, so that it becomes part of the hooks: it has but two callers.
#pragma once

#include "core/copy.h"
#include "core/engine.h"
#include "core/lease_watch.h"
#include "core/prev_pos.h"

namespace racache::cache {
namespace plain {

struct Spot {
  const std::byte* at;
  size_t bytes;  // at least one
};

// Flags that a plain hit finds: up to date, no mark, read before, and all of it
// again since. So there is nothing to set.
constexpr uint32_t kLook =
    Folio::kUptodate | Folio::kMark | Folio::kReadahead | Folio::kAgain;
constexpr uint32_t kPlain = Folio::kUptodate | Folio::kAgain;

// Nothing to set either: only the part that is wanted was read again, or the
// stream (whose prev_pos is `previous`) is in the middle of it. By itself, and
// given no more than this, so that the common case keeps its registers.
[[gnu::noinline, gnu::cold]] inline bool nothing_new(uint32_t word,
                                                     const int64_t& previous,
                                                     uint64_t offset,
                                                     size_t bytes) {
  if (((word ^ kPlain) & (kLook & ~Folio::kAgain)) != 0) return false;
  const unsigned order = Folio::order_of(word);
  const size_t size = kPageSize << order;
  const size_t within = offset & (size - 1);
  if (bytes > size - within) return false;
  return Folio::well_known(word, within, bytes) ||
         Folio::goes_on_within(order, offset, bytes, prev_pos::load(previous));
}

// False: not plain.
[[gnu::always_inline]] inline bool find(const File& file,
                                        const OpenStream& stream,
                                        uint64_t offset, size_t count,
                                        Spot& spot) {
  const uint64_t end = file.plain_size;
  if (RACACHE_UNLIKELY(!file.readable() || offset >= end)) return false;
  const uint64_t left = end - offset;
  const size_t bytes = count < left ? count : static_cast<size_t>(left);
  const FolioId id = file.index.lookup(offset >> kPageShift);
  if (RACACHE_UNLIKELY(id == kNoFolio)) return false;
  const Arena& arena = file.engine->arena;
  const uint32_t word = arena.folio(id).word.load(std::memory_order_acquire);
  if (RACACHE_UNLIKELY((word & kLook) != kPlain) &&
      !nothing_new(word, stream.stream.prev_pos, offset, bytes)) {
    return false;
  }
  const size_t size = kPageSize << Folio::order_of(word);
  const size_t within = offset & (size - 1);
  if (RACACHE_UNLIKELY(bytes > size - within)) return false;
  spot = {arena.memory(id) + within, bytes};
  return true;
}

[[gnu::always_inline]] inline size_t count(ThreadSlot& slot, File& file,
                                           OpenStream& stream, uint64_t end,
                                           size_t bytes) {
  Recent& mine = slot.recent;
  ++mine.hits;
  mine.hit_bytes += bytes;
  recent::count_hit(mine, file);
  prev_pos::note(slot, stream, end);
  if (bytes == 0) __builtin_unreachable();
  return bytes;
}

// After a bad buffer, if nobody has moved on; otherwise it ends where it ends.
[[gnu::noinline, gnu::cold]] inline bool give_back(
    std::atomic<int64_t>& position, int64_t end, size_t bytes) {
  const int64_t begin = end - static_cast<int64_t>(bytes);
  return position.compare_exchange_strong(end, begin,
                                          std::memory_order_relaxed);
}

}  // namespace plain

// Where all of it is static: tests of the hooks have another.
struct Plain {
  // Before either of the others, in the same call of the program.
  [[gnu::always_inline]] static bool current() {
    return lease_watch::current();
  }

  // One buffer out of one folio: the bytes copied, or 0 when it is anything
  // else, with nothing done. Inside an epoch section of `slot`, the caller's.
  [[gnu::always_inline]] static size_t hit(File& file, OpenStream& stream,
                                           ThreadSlot& slot, void* to,
                                           size_t bytes, uint64_t offset) {
    plain::Spot spot;
    if (RACACHE_UNLIKELY(!plain::find(file, stream, offset, bytes, spot))) {
      return 0;
    }
    if (RACACHE_UNLIKELY(racache_copy(to, spot.at, spot.bytes) != spot.bytes)) {
      return 0;  // a bad buffer: the other ways say how far it goes
    }
    return plain::count(slot, file, stream, offset + spot.bytes, spot.bytes);
  }

  // The same at `position`, which is moved on before the copy, so that readers
  // at one position get disjoint parts. Negative: it is not a position.
  [[gnu::always_inline]] static size_t hit_next(
      File& file, OpenStream& stream, ThreadSlot& slot, void* to, size_t bytes,
      std::atomic<int64_t>& position) {
    // Relaxed: the word itself is all there is. A negative one is no position,
    // and as an offset it lies beyond every file.
    int64_t at = position.load(std::memory_order_relaxed);
    const uint64_t offset = static_cast<uint64_t>(at);
    plain::Spot spot;
    if (RACACHE_UNLIKELY(!plain::find(file, stream, offset, bytes, spot))) {
      return 0;
    }
    const int64_t end = at + static_cast<int64_t>(spot.bytes);
    if (RACACHE_UNLIKELY(!position.compare_exchange_strong(
            at, end, std::memory_order_relaxed))) {
      return 0;  // another reader was faster
    }
    const size_t copied = racache_copy(to, spot.at, spot.bytes);
    if (RACACHE_UNLIKELY(copied != spot.bytes)) {
      return plain::give_back(position, end, spot.bytes) ? 0 : copied;
    }
    return plain::count(slot, file, stream, static_cast<uint64_t>(end), copied);
  }
};

}  // namespace racache::cache
