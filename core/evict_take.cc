// SPDX-License-Identifier: MIT
// Taking one folio: whole, or with parts of it moved elsewhere; and emptying a
// block so that it can be one large folio.
//
// A folio may change hands while we look at it. It is read inside a section, so
// that its memory is not reused meanwhile, and what proves that it still is
// this file's is the index entry, read under the file's lock at the end. Files
// are only ever try-locked: the evictor holds a lock of its own.
#include <cstring>

#include "core/engine.h"

namespace racache {
namespace {

constexpr unsigned kBlocksLookedAt = 16;
constexpr uint64_t kImmovable = ~uint64_t{0};
constexpr uint8_t kAllParts = (1u << Folio::kParts) - 1;

struct Place {
  File* file;
  PageIndex first;
  uint32_t word;
};

// What a folio says of itself, to be proved later.
bool read_place(Engine& engine, FolioId id, Place* place) {
  Folio& folio = engine.arena.folio(id);
  place->word = folio.word.load(std::memory_order_acquire);
  if (!Folio::alive(place->word)) return false;
  const uint32_t number = __atomic_load_n(&folio.file, __ATOMIC_RELAXED);
  if (number >= engine.files_used.load(std::memory_order_acquire)) {
    return false;
  }
  place->file = &engine.files[number];
  place->first = __atomic_load_n(&folio.index, __ATOMIC_RELAXED);
  return true;
}

// The parts that stay, copied; they are published when the whole is taken out.
struct Copies {
  FolioId ids[Folio::kParts] = {};
  PageIndex at[Folio::kParts] = {};
  unsigned count = 0;
  unsigned order = 0;
  PageIndex first = 0;    // of the folio that they are copied from
  uint8_t published = 0;  // a bit for each part of that order
};

FolioId head_of_block_of(FolioId id) {
  return static_cast<FolioId>(round_down(id - 1, kBlockPages)) + 1;
}

void release_copies(Engine& engine, const Copies& copies) {
  for (unsigned i = 0; i < copies.count; ++i) {
    engine.arena.folio(copies.ids[i]).abandon_fill();
    engine.arena.release(copies.ids[i], copies.order);
  }
}

// One piece of memory outside of the block that is to come free.
FolioId allocate_elsewhere(Engine& engine, FolioId from, unsigned order) {
  const FolioId id = engine.arena.allocate(order);
  if (id == kNoFolio || head_of_block_of(id) != head_of_block_of(from)) {
    return id;
  }
  engine.arena.release(id, order);
  return kNoFolio;
}

// `source` is the part's frame; no memory is no fault: the part is lost.
void copy_part(Engine& engine, const Place& place, FolioId source,
               PageIndex first, Copies& copies) {
  const FolioId id = allocate_elsewhere(engine, source, copies.order);
  if (id == kNoFolio) return;
  std::memcpy(engine.arena.memory(id), engine.arena.memory(source),
              kPageSize << copies.order);
  engine.arena.folio(id).begin_full(
      place.file->number, first, copies.order,
      Folio::kMain | Folio::kFrequent | Folio::kUsed);
  copies.ids[copies.count] = id;
  copies.at[copies.count++] = first;
}

// All parts of a folio in one, or each on its own.
void copy_parts(Engine& engine, const Place& place, FolioId id, uint8_t keep,
                Copies& copies) {
  const unsigned order = Folio::order_of(place.word);
  copies.first = place.first;
  if (keep == kAllParts) {
    copies.order = order;
    return copy_part(engine, place, id, place.first, copies);
  }
  copies.order = order - 2;  // the policy splits large ones only
  for (unsigned i = 0; i < Folio::kParts; ++i) {
    if ((keep >> i & 1) == 0) continue;
    const uint32_t skip = i << copies.order;
    copy_part(engine, place, id + skip, place.first + skip, copies);
  }
}

// Under the file's lock. What the index cannot take is lost.
void publish(Engine& engine, File& file, Copies& copies) {
  unsigned lost = 0;
  for (unsigned i = 0; i < copies.count; ++i) {
    const FolioId id = copies.ids[i];
    if (file.index.insert(copies.at[i], copies.order, id) ==
        FileIndex::Insert::kOk) {
      engine.evictor.policy().admitted(id);
      copies.published |= 1u << ((copies.at[i] - copies.first) >> copies.order);
      continue;
    }
    copies.ids[lost++] = id;
  }
  copies.count = lost;
}

// Ghosts of what does not stay.
void remember_lost(EvictionPolicy& policy, const Place& place,
                   const Copies& copies) {
  const uint64_t identity = identity_of(*place.file);
  if (copies.published == 0) {
    return policy.evicted(identity, place.first, place.word);
  }
  const unsigned order = Folio::order_of(place.word);
  const uint32_t part = (place.word & ~Folio::kOrderMask) | copies.order;
  for (unsigned i = 0; i < 1u << (order - copies.order); ++i) {
    if ((copies.published >> i & 1) != 0) continue;
    policy.evicted(identity, place.first + (uint64_t{i} << copies.order), part);
  }
}

// What evicting the folios of a block would lose. 0: it is not in use.
uint64_t cost_of_block(Engine& engine, FolioId head) {
  uint64_t cost = 0;
  for (FolioId id = head; id < head + kBlockPages;) {
    const uint32_t word = engine.arena.folio(id).word.load(kRelaxed);
    const uint64_t pages = uint64_t{1} << Folio::order_of(word);
    if ((word & (Folio::kFilling | Folio::kFailed)) != 0) return kImmovable;
    if ((word & Folio::kDead) != 0) return kImmovable;  // free soon
    if (Folio::in_use(word)) {
      cost += pages * (engine.evictor.policy().worth_keeping(word) ? 8
                       : (word & Folio::kMain) != 0                ? 2
                                                                   : 1);
    }
    id += static_cast<FolioId>(pages);
  }
  return cost;
}

}  // namespace

// Under the file's lock. What has been read again since it was chosen stays.
bool Evictor::kill(File& file, FolioId id, PageIndex first, uint32_t word) {
  Folio& folio = file.engine->arena.folio(id);
  return file.state.load(std::memory_order_acquire) != File::State::kFree &&
         first < file.pages && file.index.lookup(first) == id &&
         ((word & Folio::kAgain) == 0 ? folio.try_kill() : folio.kill());
}

bool Evictor::take(Engine& engine, const Victim& victim, uint64_t* freed) {
  ThreadSlot* slot = epoch::self();
  if (slot == nullptr) return false;
  epoch::Section section(*slot);
  Place place;
  if (!read_place(engine, victim.id, &place)) return false;
  File& file = *place.file;
  const unsigned order = Folio::order_of(place.word);
  // Another folio by now than the one that was judged: it has no such parts.
  if (order < 2 && victim.keep != 0 && victim.keep != kAllParts) return false;
  Copies copies;
  if (victim.keep != 0) {
    copy_parts(engine, place, victim.id, victim.keep, copies);
    if (copies.count == 0) {  // no memory: better whole than not at all
      policy_.spare(victim.id);
      return false;
    }
  }
  bool killed = false;
  uint64_t kept = 0;  // pages
  if (file.lock.try_lock()) {
    killed = kill(file, victim.id, place.first, place.word);
    if (killed) {
      file.index.erase(place.first, order);
      publish(engine, file, copies);
      kept = uint64_t(__builtin_popcount(copies.published)) << copies.order;
    }
    file.lock.unlock();
  }
  release_copies(engine, copies);
  if (!killed) return false;
  *freed += (uint64_t{1} << order) - kept;
  remember_lost(policy_, place, copies);
  push(engine, victim.id);
  return true;
}

// Of the next few blocks, the one whose loss costs least.
FolioId Evictor::cheapest_block(Engine& engine) {
  const uint64_t blocks = engine.arena.touched_blocks();
  FolioId best = kNoFolio;
  uint64_t least = kImmovable;
  for (unsigned i = 0; i < kBlocksLookedAt && i < blocks; ++i) {
    const uint64_t block = block_hand_++ % blocks;
    const FolioId head = static_cast<FolioId>(block * kBlockPages + 1);
    const uint64_t cost = cost_of_block(engine, head);
    if (cost < least) {
      least = cost;
      best = head;
    }
  }
  return best;
}

bool Evictor::empty_block(Engine& engine, FolioId head) {
  uint64_t freed = 0;
  uint64_t evicted = 0;
  for (FolioId id = head; id < head + kBlockPages;) {
    const uint32_t word = engine.arena.folio(id).word.load(kRelaxed);
    const unsigned order = Folio::order_of(word);
    if (Folio::in_use(word) && (word & Folio::kDead) == 0) {
      const uint8_t keep = policy_.worth_keeping(word) ? kAllParts : 0;
      if (!take(engine, {id, keep}, &freed)) return false;
      if (keep == 0) ++evicted;
    }
    id += FolioId{1} << order;
  }
  if (Counters* c = epoch::counters()) c->evicted += evicted;
  return true;
}

bool Evictor::make_run(Engine& engine, unsigned order) {
  constexpr int kTries = 4;
  for (int i = 0; i < kTries; ++i) {
    if (engine.arena.largest_free_order() >= static_cast<int>(order)) {
      return true;
    }
    if (stuck(engine)) return false;
    {
      LockGuard guard(lock_);
      const FolioId head = cheapest_block(engine);
      if (head != kNoFolio) (void)empty_block(engine, head);
    }
    if (!settle(engine)) break;  // a reader is slow: not at others' cost
  }
  return engine.arena.largest_free_order() >= static_cast<int>(order);
}

}  // namespace racache
