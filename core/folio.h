// SPDX-License-Identifier: MIT
// The folio: 2^order pages of one file, contiguous in memory and in the file,
// naturally aligned in both, and its state word.
//
// One 16-byte Folio describes each page frame of the arena; only the one of
// the folio's first frame counts. That is 0.39 % of the memory it describes.
//
//   state          bits                 who may change it
//   free           0, or kFree          arena; kFree: on a free list
//   filling        kFilling             inserter; cannot be evicted
//   uptodate       kUptodate            completion of the fill (filling ->)
//   failed         kFailed              completion with an error (filling ->)
//   dead           kDead                evictor, by try_kill (uptodate ->)
//
// kMark (readahead mark) is consumed at most once, by try_clear_mark. kWaiters
// says that a thread sleeps on the word (futex). The top of `word` is a
// generation, so that a sleeper notices memory that changed hands.
//
// What is known of its use: a bit for each quarter that was read (kUsed), and
// one for each that was read again, in another pass (kAgain). Hits set them;
// the eviction policy clears kAgain and owns kMain, kFrequent and kOnce. The
// quarters of a page are used together.
//
// A frame inside a folio, not at its head, never carries the bits of a folio in
// use: only a head is ever filled, and it is freed before it can be absorbed
// into a larger folio. So the clock hand may walk frames while they change.
//
// A reader looks a folio up in its file's index inside an epoch section, and
// may use its memory until it leaves: the arena reuses a dead folio's memory
// only after a grace period. So a hit takes no lock and no reference.
#pragma once

#include <atomic>

#include "core/base.h"

namespace racache {

struct Folio {
  static constexpr uint32_t kOrderMask = 0xf;
  static constexpr uint32_t kFilling = 1u << 4;
  static constexpr uint32_t kUptodate = 1u << 5;
  static constexpr uint32_t kFailed = 1u << 6;
  static constexpr uint32_t kDead = 1u << 7;
  static constexpr uint32_t kMark = 1u << 8;
  static constexpr uint32_t kMain = 1u << 9;  // has proved its worth
  static constexpr uint32_t kWaiters = 1u << 10;
  static constexpr uint32_t kReadahead = 1u << 11;  // filled, not yet read
  // The backend asks a sleeper on this word to become the reaper. May be left
  // over in any state and then means nothing.
  static constexpr uint32_t kKick = 1u << 12;
  static constexpr uint32_t kFree = 1u << 13;      // on the arena's free list
  static constexpr uint32_t kFrequent = 1u << 14;  // outlives one more look
  static constexpr uint32_t kOnce = 1u << 15;      // by its reader's own word
  static constexpr unsigned kParts = 4;
  static constexpr unsigned kUsedShift = 16;
  static constexpr unsigned kAgainShift = 20;
  static constexpr uint32_t kUsed = 0xfu << kUsedShift;
  static constexpr uint32_t kAgain = 0xfu << kAgainShift;
  static constexpr uint32_t kGenerationOne = 1u << 24;
  static constexpr uint32_t kGenerationMask = 0xff000000u;

  std::atomic<uint32_t> word;  // state; futex of those who wait for the fill
  uint32_t index;  // first page within the file (<= 16 TiB); free: list's prev
  uint32_t file;   // the cached file's number
  uint32_t link;   // next of the arena's free list, or of a limbo list

  static constexpr unsigned order_of(uint32_t w) { return w & kOrderMask; }
  static bool in_use(uint32_t w) {
    return (w & (kFilling | kUptodate | kFailed | kDead)) != 0;
  }
  // Its bytes are there, and nobody has begun to take it out.
  static constexpr bool alive(uint32_t w) {
    return (w & (kUptodate | kDead)) == kUptodate;
  }
  uint64_t pages() const {
    return uint64_t{1} << order_of(word.load(std::memory_order_relaxed));
  }

  // The quarters, from bit 0, that [from, from + bytes) of a folio lies in.
  static constexpr uint32_t parts_of(unsigned order, size_t from,
                                     size_t bytes) {
    const unsigned shift = kPageShift - 2 + order;
    return (2u << ((from + bytes - 1) >> shift)) - (1u << (from >> shift));
  }
  // Whether a read of that range adds nothing to what is known of its use.
  // Almost every hit; it is all that a hit does for the eviction policy.
  static constexpr bool well_known(uint32_t w, size_t from, size_t bytes) {
    return (parts_of(order_of(w), from, bytes) & ~(w >> kAgainShift)) == 0;
  }
  // What the use of a range says: of quarters, but of no less than a page,
  // whose quarters are used together. `goes_on`: so is what came before it.
  static constexpr uint32_t use_of(unsigned order, size_t from, size_t bytes,
                                   bool goes_on) {
    const unsigned shift = use_shift(order);
    uint32_t units =
        (2u << ((from + bytes - 1) >> shift)) - (1u << (from >> shift));
    if (goes_on) units &= units - 1;  // not the first
    if (order >= 2) return units;
    return order == 1 ? (units & 1) * 3 + (units >> 1) * 12 : units * 15;
  }
  // Whether `offset` lies behind `previous`, the end of the last read, within
  // one quarter (one page, in a small folio).
  static constexpr bool goes_on(unsigned order, uint64_t offset,
                                uint64_t previous) {
    const uint64_t unit = uint64_t{1} << use_shift(order);
    return previous - round_down(offset, unit) - 1 < unit;
  }
  // And the whole read does: it says nothing that was not said before.
  static constexpr bool goes_on_within(unsigned order, uint64_t offset,
                                       size_t bytes, uint64_t previous) {
    const unsigned shift = use_shift(order);
    return goes_on(order, offset, previous) &&
           (offset + bytes - 1) >> shift == offset >> shift;
  }
  static constexpr unsigned use_shift(unsigned order) {
    return kPageShift + (order > 2 ? order - 2 : 0);
  }

  // Atomic, because the clock hand may look at a folio that changes hands; it
  // believes what it read only once the index, under the file's lock, agrees.
  void set_place(uint32_t file_number, uint32_t first) {
    __atomic_store_n(&file, file_number, __ATOMIC_RELAXED);
    __atomic_store_n(&index, first, __ATOMIC_RELAXED);
  }

  // free -> filling, before the folio is put into an index, which publishes it
  // to readers. Release: the clock hand finds folios by their frame, not by
  // the index, and reads file and index of one it sees in use.
  void begin_fill(uint32_t file_number, PageIndex first, unsigned order,
                  bool mark, uint32_t traits = 0) {
    begin(file_number, first,
          order | kFilling | kReadahead | (mark ? kMark : 0) | traits);
  }
  // free -> uptodate, before it is put into an index: its bytes are there.
  void begin_full(uint32_t file_number, PageIndex first, unsigned order,
                  uint32_t traits) {
    begin(file_number, first, order | kUptodate | traits);
  }
  // filling -> uptodate or failed. Returns whether someone must be woken.
  // Release: pairs with the acquire load of a reader that sees kUptodate.
  bool end_fill(bool ok) {
    const uint32_t flip = kFilling | (ok ? kUptodate : kFailed);
    const uint32_t old = word.fetch_xor(flip, std::memory_order_acq_rel);
    return (old & kWaiters) != 0;
  }
  // filling -> free, for a folio that never got into an index.
  // Returns whether someone sleeps on it all the same: a waiter that comes late
  // from the memory's last life.
  bool abandon_fill() {
    return (word.fetch_and(kGenerationMask, std::memory_order_relaxed) &
            kWaiters) != 0;
  }
  // uptodate and not read again -> dead. False: it is in use, leave it.
  bool try_kill() {
    uint32_t w = word.load(std::memory_order_relaxed);
    while ((w & (kUptodate | kAgain | kDead)) == kUptodate) {
      if (word.compare_exchange_weak(w, w | kDead, std::memory_order_acq_rel)) {
        return true;
      }
    }
    return false;
  }
  // uptodate -> dead whether read again or not: what it holds is not wanted.
  bool kill() {
    uint32_t w = word.load(std::memory_order_relaxed);
    while ((w & (kUptodate | kDead)) == kUptodate) {
      if (word.compare_exchange_weak(w, w | kDead, std::memory_order_acq_rel)) {
        return true;
      }
    }
    return false;
  }
  bool try_clear_mark() {
    return (word.fetch_and(~kMark, std::memory_order_relaxed) & kMark) != 0;
  }

 private:
  void begin(uint32_t file_number, PageIndex first, uint32_t state) {
    set_place(file_number, static_cast<uint32_t>(first));
    const uint32_t generation =
        (word.load(std::memory_order_relaxed) + kGenerationOne) &
        kGenerationMask;
    word.store(generation | state, std::memory_order_release);
  }
};
static_assert(sizeof(Folio) == 16);

}  // namespace racache
