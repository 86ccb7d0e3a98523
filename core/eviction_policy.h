// SPDX-License-Identifier: MIT
// Which folio goes next. It decides and remembers; the Evictor acts.
//
// s3fifo, the default, after the algorithm of that name (small queue, main
// part, ghosts), made for folios of mixed order:
// - What comes in is on probation, in a queue in order of arrival. The queue
//   may hold a tenth of the memory; when it holds more, its oldest folio goes,
//   and leaves a ghost; what was read ahead and is still unread goes round
//   twice. So a scan, and what was read ahead in vain, passes through a tenth
//   of the cache and leaves the rest alone.
// - A folio that was read again (in another pass, see Folio::kAgain) when its
//   turn comes, or whose ghost is still there when it comes in, belongs to the
//   main part: a clock over the arena's frames. A folio that was read again
//   since the hand's last visit outlives two more.
// - A large folio of which at most half was read again is split: that half
//   stays, in folios of its own, the rest goes.
// - What its reader promises to use once (FADV_NOREUSE) is never promoted.
// Evicting by address, in the main part, makes free runs of neighbours.
//
// The others are for comparison: `clock` (one hand, a second chance), `fifo`
// and `lru`, which order folios by arrival or last use in steps of 1/64 of the
// cache.
//
// Memory: at most 0.08 % of the arena, 0.11 % of one below 128 MiB.
// Thread safety: traits(), admitted() and gone() by any thread; next() and what
// follows it by one at a time.
#pragma once

#include <atomic>

#include "core/arena.h"
#include "core/ghosts.h"

namespace racache {

enum class EvictKind : uint8_t { kS3Fifo, kLru, kFifo, kClock };

struct Victim {
  FolioId id;    // kNoFolio: none was found
  uint8_t keep;  // parts (Folio::parts_of) that shall stay
};

class EvictionPolicy {
 public:
  // False: no memory.
  bool init(EvictKind kind, const Arena& arena);
  void destroy();

  // A folio is about to come in: the bits it starts with. `once`: its reader
  // will not come back.
  [[nodiscard]] uint32_t traits(uint64_t file, PageIndex first, unsigned order,
                                bool once);
  // It is in the index, and still filling.
  void admitted(FolioId id);
  // It has left the index; `word` is its last.
  void gone(uint32_t word);

  // The next victim. `*budget` frames may be looked at.
  [[nodiscard]] Victim next(uint64_t* budget);
  // The victim could not be taken now.
  void put_back(FolioId id);
  // Parts of it were to stay, and cannot be had without the rest.
  void spare(FolioId id);
  // The victim was taken from this place.
  void evicted(uint64_t file, PageIndex first, uint32_t word);

  // Whether a folio is worth moving rather than losing.
  [[nodiscard]] bool worth_keeping(uint32_t word) const;
  size_t metadata_bytes() const;
  uint64_t probation_pages() const {
    return small_pages_.load(std::memory_order_relaxed);
  }

 private:
  // Folio ids in order of arrival. Entries may be out of date: the folio's word
  // says whether it is still on probation.
  struct Queue {
    FolioId* ids = nullptr;
    uint64_t mask = 0;
    uint64_t head = 0, tail = 0;  // tail - head entries
    bool full() const { return tail - head > mask; }
    bool empty() const { return tail == head; }
    void push(FolioId id) { ids[tail++ & mask] = id; }
    FolioId pop() { return ids[head++ & mask]; }
  };

  bool init_ages(uint64_t frames);
  bool init_queue(uint64_t frames);
  FolioId pop_small();
  uint64_t queued();
  void graduate(FolioId id);
  bool promote(FolioId id, uint32_t word);
  bool spare_readahead(FolioId id, uint32_t word);
  Victim next_small();
  Victim judge_small(FolioId id, uint32_t word);
  Victim next_main(uint64_t* budget);
  Victim judge_main(FolioId id, uint32_t word);
  Victim next_clock(uint64_t* budget);
  Victim next_aged(uint64_t* budget);
  bool too_young(FolioId id, uint32_t word);
  void survey();
  void age_folio(FolioId id, uint32_t word, uint64_t (&pages)[256]);
  FolioId step_hand(uint64_t* budget);

  const Arena* arena_ = nullptr;
  EvictKind kind_ = EvictKind::kS3Fifo;
  uint64_t frames_ = 0;
  std::atomic<uint64_t> small_pages_{0};
  Ghosts ghosts_;
  Lock queue_lock_;  // innermost, as the arena's
  Queue small_;
  FolioId hand_ = 1;

  // fifo and lru: when each folio came or was last seen used, in 64ths of the
  // cache that have come in since.
  uint8_t* ages_ = nullptr;
  std::atomic<uint64_t> arrived_{0};  // pages, ever
  uint8_t threshold_ = 0;             // at least this old goes
  uint8_t surveyed_ = 0;              // the step of the last survey
  uint64_t circle_ = 0;               // frames walked since
  uint8_t step() const;
  uint8_t age_of(FolioId id) const;
  void set_age(FolioId id, uint8_t age);
};

}  // namespace racache
