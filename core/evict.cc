// SPDX-License-Identifier: MIT
#include "core/evict.h"

#include "core/engine.h"

namespace racache {
namespace {

constexpr uint64_t kGraceTimeoutNs = 2'000'000;
// Freed at a time, at least, where the arena is not small: a grace period costs
// the same for many as for one.
constexpr uint64_t kBatchPages = 4 * kBlockPages;

uint64_t pages_in(const Arena& arena, FolioId id) {
  return arena.folio(id).pages();
}

}  // namespace

void Evictor::push(Engine& engine, FolioId id) {
  LockGuard guard(limbo_lock_);
  engine.arena.folio(id).link = open_.head;
  open_.head = id;
  ++open_.count;
}

void Evictor::retire(Engine& engine, FolioId id) { push(engine, id); }

void Evictor::release_all(Engine& engine, Limbo& limbo) {
  for (FolioId id = limbo.head; id != kNoFolio;) {
    Folio& folio = engine.arena.folio(id);
    const FolioId next = folio.link;
    engine.arena.release(
        id, Folio::order_of(folio.word.load(std::memory_order_relaxed)));
    id = next;
  }
  limbo = {};
}

// Two generations: one collects, one waits for its grace period. Moving the
// collecting one on stamps it after its last folio was unpublished.
bool Evictor::flush(Engine& engine, uint64_t timeout_ns) {
  Limbo ready;
  {
    LockGuard guard(limbo_lock_);
    if (closed_.head == kNoFolio) {
      closed_ = open_;
      open_ = {};
      if (closed_.head != kNoFolio) closed_.stamp = epoch::retire();
    }
    if (closed_.head == kNoFolio) return true;
    ready = closed_;
  }
  const bool passed = timeout_ns == 0 ? epoch::passed(ready.stamp)
                                      : epoch::wait(ready.stamp, timeout_ns);
  if (!passed) return false;
  {
    LockGuard guard(limbo_lock_);
    if (closed_.head != ready.head || closed_.stamp != ready.stamp) {
      return true;  // another thread freed it
    }
    closed_ = {};
  }
  release_all(engine, ready);
  return true;
}

void Evictor::sweep(Engine& engine) {
  if (flush(engine, 0)) flush(engine, 0);
}

// The folio may change hands while we look: the index entry, read under the
// file's lock, is what proves that it still is this file's.
bool Evictor::try_evict(Engine& engine, FolioId id, uint64_t* pages) {
  Folio& folio = engine.arena.folio(id);
  uint32_t word = folio.word.load(std::memory_order_relaxed);
  if ((word & Folio::kUptodate) == 0 || (word & Folio::kDead) != 0) {
    return false;
  }
  if ((word & Folio::kReferenced) != 0) {
    folio.word.fetch_and(~Folio::kReferenced, std::memory_order_relaxed);
    return false;  // its second chance
  }
  const uint32_t number = __atomic_load_n(&folio.file, __ATOMIC_RELAXED);
  if (number >= engine.files_used.load(std::memory_order_acquire)) {
    return false;
  }
  File& file = engine.files[number];
  if (!file.lock.try_lock()) return false;
  bool killed = false;
  const PageIndex first = __atomic_load_n(&folio.index, __ATOMIC_RELAXED);
  if (file.state.load(std::memory_order_acquire) != File::State::kFree &&
      first < file.pages && file.index.lookup(first) == id &&
      folio.try_kill()) {
    const unsigned order =
        Folio::order_of(folio.word.load(std::memory_order_relaxed));
    file.index.erase(first, order);
    *pages += uint64_t{1} << order;
    killed = true;
  }
  file.lock.unlock();
  if (killed) push(engine, id);
  return killed;
}

// At most two turns of the hand: the first may only clear reference bits.
bool Evictor::evict_some(Engine& engine, uint64_t pages) {
  LockGuard guard(lock_);
  uint64_t freed = 0;
  uint64_t evicted = 0;
  const uint64_t frames = engine.arena.block_count() * kBlockPages;
  for (uint64_t walked = 0; walked < 2 * frames && freed < pages;) {
    const FolioId id = engine.arena.next_in_use(hand_);
    if (id == kNoFolio) {  // the end of the arena
      walked += frames - hand_ + 1;
      hand_ = 1;
      continue;
    }
    walked += id - hand_ + 1;
    const uint64_t size = pages_in(engine.arena, id);
    if (try_evict(engine, id, &freed)) ++evicted;
    hand_ = static_cast<FolioId>(id + size);
    if (hand_ > frames) hand_ = 1;
  }
  if (ThreadSlot* slot = epoch::self()) slot->counters.evicted += evicted;
  return evicted != 0;
}

bool Evictor::reclaim(Engine& engine, uint64_t pages) {
  const uint64_t sixteenth = engine.arena.limit() >> (kPageShift + 4);
  const uint64_t least = sixteenth < kBatchPages ? sixteenth : kBatchPages;
  for (int round = 0; round < 8; ++round) {
    const uint64_t free = engine.arena.free_pages();
    if (free >= pages) return true;
    const uint64_t missing = pages - free;
    const uint64_t batch = missing < least ? least : missing;
    if (!evict_some(engine, batch)) {
      // Nothing to evict; something may still be waiting for its grace.
      if (!flush(engine, kGraceTimeoutNs)) return false;
      flush(engine, kGraceTimeoutNs);
      return engine.arena.free_pages() >= pages;
    }
    if (!flush(engine, kGraceTimeoutNs)) return false;
    flush(engine, kGraceTimeoutNs);
  }
  return engine.arena.free_pages() >= pages;
}

void Evictor::drop(Engine& engine, File& file, PageIndex first, PageIndex end) {
  // In slices, so that a reader who plans is not held up by a large file.
  constexpr int kSlice = 64;
  PageIndex page = first;
  while (page < end) {
    LockGuard guard(file.lock);
    for (int i = 0; i < kSlice && page < end; ++i) {
      page = file.index.next_present(page, end);
      if (page >= end) break;
      const FolioId id = file.index.lookup(page);
      Folio& folio = engine.arena.folio(id);
      const uint32_t word = folio.word.load(std::memory_order_acquire);
      const unsigned order = Folio::order_of(word);
      const PageIndex next = folio.index + (uint64_t{1} << order);
      const bool whole = folio.index >= first && next <= end;
      if (whole && folio.kill()) {
        file.index.erase(folio.index, order);
        push(engine, id);
      }
      page = next;
    }
  }
}

}  // namespace racache
