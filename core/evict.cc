// SPDX-License-Identifier: MIT
#include "core/evict.h"

#include "core/engine.h"

namespace racache {
namespace {

constexpr uint64_t kGraceTimeoutNs = 2'000'000;
// Freed at a time, at least, where the arena is not small: a grace period costs
// the same for many as for one.
constexpr uint64_t kBatchPages = 4 * kBlockPages;

}  // namespace

void Evictor::push(Engine& engine, FolioId id) {
  policy_.gone(engine.arena.folio(id).word.load(std::memory_order_relaxed));
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
// collecting one on stamps it after its last folio was unpublished. A grace
// period is waited for once: a thread that jumped out of its section, by a
// signal's siglongjmp, may stay in it for as long as it lives.
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
  if (ready.in_vain) timeout_ns = 0;
  const bool passed = timeout_ns == 0 ? epoch::passed(ready.stamp)
                                      : epoch::wait(ready.stamp, timeout_ns);
  if (!passed) {
    LockGuard guard(limbo_lock_);
    if (timeout_ns != 0 && closed_.stamp == ready.stamp) closed_.in_vain = true;
    return false;
  }
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

// What is evicted now would not come free.
bool Evictor::stuck(Engine& engine) {
  bool in_vain;
  {
    LockGuard guard(limbo_lock_);
    in_vain = closed_.in_vain;
  }
  return in_vain && !flush(engine, 0);
}

void Evictor::sweep(Engine& engine) {
  if (flush(engine, 0)) flush(engine, 0);
}

bool Evictor::evict_some(Engine& engine, uint64_t pages) {
  LockGuard guard(lock_);
  uint64_t freed = 0;
  uint64_t evicted = 0;
  // Enough for a hand that has to come round three times.
  uint64_t budget = 4 * engine.arena.block_count() * kBlockPages;
  while (freed < pages) {
    const Victim victim = policy_.next(&budget);
    if (victim.id == kNoFolio) break;
    if (take(engine, victim, &freed)) {
      ++evicted;
    } else {
      policy_.put_back(victim.id);
      if (budget == 0 || --budget == 0) break;
    }
  }
  if (Counters* c = epoch::counters()) c->evicted += evicted;
  return evicted != 0;
}

// Both generations of the limbo, waiting for their grace.
bool Evictor::settle(Engine& engine) {
  if (!flush(engine, kGraceTimeoutNs)) return false;
  flush(engine, kGraceTimeoutNs);
  return true;
}

bool Evictor::reclaim(Engine& engine, uint64_t pages) {
  const uint64_t sixteenth = engine.arena.limit() >> (kPageShift + 4);
  const uint64_t least = sixteenth < kBatchPages ? sixteenth : kBatchPages;
  for (int round = 0; round < 8; ++round) {
    const uint64_t free = engine.arena.free_pages();
    if (free >= pages) return true;
    if (stuck(engine)) return false;
    const uint64_t missing = pages - free;
    const uint64_t batch = missing < least ? least : missing;
    // Nothing to evict: something may still be waiting for its grace.
    const bool evicted = evict_some(engine, batch);
    if (!settle(engine)) return false;
    if (!evicted) break;
  }
  return engine.arena.free_pages() >= pages;
}

// By the policy's choice first; what is left of a block is moved out of it.
void Evictor::shrink(Engine& engine) {
  constexpr int kTries = 16;
  Arena& arena = engine.arena;
  for (int tries = 0; arena.excess_blocks() != 0 && tries < kTries; ++tries) {
    while (arena.withdraw_block()) tries = 0;
    // The kernel refused: the program has locked its memory.
    if (arena.excess_blocks() == 0 || arena.largest_free_order() == kMaxOrder) {
      return;
    }
    if (stuck(engine)) return;
    (void)evict_some(engine, kBlockPages);
    if (!settle(engine) || !make_run(engine, kMaxOrder)) continue;
  }
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
