// SPDX-License-Identifier: MIT
// s3fifo. The policies for comparison are in eviction_simple.cc.
#include "core/eviction_policy.h"

#include "core/mapping.h"

namespace racache {
namespace {

// Below this a part is not worth a folio of its own.
constexpr unsigned kLeastSplitOrder = 4;
// A tenth is too little where a few readahead windows are more than that.
constexpr uint64_t kWindowsPages = 4096;  // 16 MiB

uint32_t again_of(uint32_t word) {
  return (word & Folio::kAgain) >> Folio::kAgainShift;
}

uint64_t pages_of_word(uint32_t word) {
  return uint64_t{1} << Folio::order_of(word);
}

// The parts that stay when a large folio is hot only here and there.
uint8_t hot_parts(uint32_t word) {
  const uint32_t again = again_of(word);
  if (Folio::order_of(word) < kLeastSplitOrder) return 0;
  const int count = __builtin_popcount(again);
  return count * 2 <= static_cast<int>(Folio::kParts)
             ? static_cast<uint8_t>(again)
             : 0;
}

uint64_t quota_of(uint64_t frames) {
  const uint64_t most = frames / 4;
  const uint64_t least = most < kWindowsPages ? most : kWindowsPages;
  return frames / 10 > least ? frames / 10 : least;
}

uint64_t power_of_two_below(uint64_t n) { return uint64_t{1} << floor_log2(n); }

}  // namespace

bool EvictionPolicy::init(EvictKind kind, const Arena& arena) {
  kind_ = kind;
  arena_ = &arena;
  frames_ = arena.block_count() * kBlockPages;
  if (kind == EvictKind::kClock) return true;
  const bool ok =
      kind == EvictKind::kS3Fifo ? init_queue(frames_) : init_ages(frames_);
  if (!ok) destroy();
  return ok;
}

// Room for a quota of single pages and a quarter more, so that it is the quota
// that says when the oldest goes: an eighth to a quarter as many entries as
// frames (up to 0.02 % of the memory), twice that in a small cache.
bool EvictionPolicy::init_queue(uint64_t frames) {
  const uint64_t count = 2 * power_of_two_below(quota_of(frames) / 4 * 5);
  void* ids = mapping::reserve(count * sizeof(FolioId), MADV_DONTFORK);
  if (ids == nullptr) return false;
  small_.ids = static_cast<FolioId*>(ids);
  small_.mask = count - 1;
  return ghosts_.init(frames);
}

void EvictionPolicy::destroy() {
  if (small_.ids != nullptr) {
    mapping::release(small_.ids, (small_.mask + 1) * sizeof(FolioId));
  }
  if (ages_ != nullptr) mapping::release(ages_, frames_);
  small_ = {};
  ages_ = nullptr;
  ghosts_.destroy();
}

size_t EvictionPolicy::metadata_bytes() const {
  const size_t queue =
      small_.ids != nullptr ? (small_.mask + 1) * sizeof(FolioId) : 0;
  return ghosts_.bytes() + queue + (ages_ != nullptr ? frames_ : 0);
}

uint32_t EvictionPolicy::traits(uint64_t file, PageIndex first, unsigned order,
                                bool once) {
  if (kind_ != EvictKind::kS3Fifo) return 0;
  if (once) return Folio::kOnce;
  return ghosts_.take(file, first, order) ? Folio::kMain : 0;
}

// When the queue is full its oldest is let into the main part: only a cache of
// single pages that was never short of memory gets there.
void EvictionPolicy::admitted(FolioId id) {
  const uint32_t word = arena_->folio(id).word.load(kRelaxed);
  if (kind_ == EvictKind::kLru || kind_ == EvictKind::kFifo) {
    arrived_.fetch_add(pages_of_word(word), kRelaxed);
    return set_age(id, step());
  }
  if (kind_ != EvictKind::kS3Fifo || (word & Folio::kMain) != 0) return;
  small_pages_.fetch_add(pages_of_word(word), kRelaxed);
  LockGuard guard(queue_lock_);
  if (small_.full()) graduate(small_.pop());
  small_.push(id);
}

// A folio that is dead keeps its bits, so exactly one of promote() and gone()
// takes its pages off.
void EvictionPolicy::gone(uint32_t word) {
  if (kind_ != EvictKind::kS3Fifo || (word & Folio::kMain) != 0) return;
  small_pages_.fetch_sub(pages_of_word(word), kRelaxed);
}

// False: it died or failed, or is another folio by now.
bool EvictionPolicy::promote(FolioId id, uint32_t word) {
  constexpr uint32_t kGone = Folio::kDead | Folio::kFailed;
  std::atomic<uint32_t>& at = arena_->folio(id).word;
  while ((word & (Folio::kMain | kGone)) == 0 && Folio::in_use(word)) {
    const uint32_t promoted =
        (word & ~(Folio::kAgain | Folio::kFrequent)) | Folio::kMain;
    if (at.compare_exchange_weak(word, promoted, kRelaxed)) {
      small_pages_.fetch_sub(pages_of_word(word), kRelaxed);
      return true;
    }
  }
  return false;
}

void EvictionPolicy::graduate(FolioId id) {
  (void)promote(id, arena_->folio(id).word.load(kRelaxed));
}

FolioId EvictionPolicy::pop_small() {
  LockGuard guard(queue_lock_);
  return small_.empty() ? kNoFolio : small_.pop();
}

uint64_t EvictionPolicy::queued() {
  LockGuard guard(queue_lock_);
  return small_.tail - small_.head;
}

void EvictionPolicy::put_back(FolioId id) {
  if (kind_ != EvictKind::kS3Fifo) return;
  const uint32_t word = arena_->folio(id).word.load(kRelaxed);
  if ((word & Folio::kMain) != 0 || !Folio::in_use(word)) return;
  LockGuard guard(queue_lock_);
  if (small_.full()) return graduate(id);  // or nobody would find it again
  small_.push(id);
}

void EvictionPolicy::spare(FolioId id) {
  std::atomic<uint32_t>& at = arena_->folio(id).word;
  const uint32_t word = at.load(kRelaxed);
  if (kind_ != EvictKind::kS3Fifo || promote(id, word)) return;
  at.fetch_and(~Folio::kAgain, kRelaxed);
}

// What was read ahead and is still waited for goes round once more: its reader
// may be slow. kFrequent says that it did.
bool EvictionPolicy::spare_readahead(FolioId id, uint32_t word) {
  constexpr uint32_t kFirstTime = Folio::kReadahead;
  if ((word & (Folio::kReadahead | Folio::kFrequent)) != kFirstTime) {
    return false;
  }
  arena_->folio(id).word.fetch_or(Folio::kFrequent, kRelaxed);
  put_back(id);
  return true;
}

// What was read again is promoted, wholly or, if that is little of it, in part.
Victim EvictionPolicy::judge_small(FolioId id, uint32_t word) {
  if (again_of(word) == 0 || (word & Folio::kOnce) != 0) return {id, 0};
  const uint8_t hot = hot_parts(word);
  if (hot != 0) return {id, hot};
  (void)promote(id, word);
  return {kNoFolio, 0};
}

Victim EvictionPolicy::next_small() {
  const uint64_t most = queued();
  for (uint64_t looked = 0; looked < most; ++looked) {
    const FolioId id = pop_small();
    if (id == kNoFolio) break;
    const uint32_t word = arena_->folio(id).word.load(kRelaxed);
    if ((word & (Folio::kMain | Folio::kDead)) != 0) continue;
    if ((word & Folio::kFilling) != 0) {
      put_back(id);
    } else if (Folio::alive(word) && !spare_readahead(id, word)) {
      const Victim victim = judge_small(id, word);
      if (victim.id != kNoFolio) return victim;
    }
  }
  return {kNoFolio, 0};
}

// The next folio in use, round and round; kNoFolio when the budget is spent.
FolioId EvictionPolicy::step_hand(uint64_t* budget) {
  while (*budget != 0) {
    const FolioId id = arena_->next_in_use(hand_);
    const uint64_t at = id == kNoFolio ? frames_ + 1 : id;
    const uint64_t passed = at - hand_ + 1;
    *budget -= passed < *budget ? passed : *budget;
    hand_ = 1;
    if (id == kNoFolio) continue;
    const uint64_t next = id + arena_->folio(id).pages();
    if (next <= frames_) hand_ = static_cast<FolioId>(next);
    return id;
  }
  return kNoFolio;
}

// Read again: two more rounds. Only here and there: the rest goes.
Victim EvictionPolicy::judge_main(FolioId id, uint32_t word) {
  std::atomic<uint32_t>& at = arena_->folio(id).word;
  if (again_of(word) != 0) {
    const uint8_t hot = hot_parts(word);
    if (hot != 0) return {id, hot};
    at.fetch_and(~Folio::kAgain, kRelaxed);
    at.fetch_or(Folio::kFrequent, kRelaxed);
    return {kNoFolio, 0};
  }
  if ((word & Folio::kFrequent) == 0) return {id, 0};
  at.fetch_and(~Folio::kFrequent, kRelaxed);
  return {kNoFolio, 0};
}

Victim EvictionPolicy::next_main(uint64_t* budget) {
  for (;;) {
    const FolioId id = step_hand(budget);
    if (id == kNoFolio) return {kNoFolio, 0};
    const uint32_t word = arena_->folio(id).word.load(kRelaxed);
    if (!Folio::alive(word) || (word & Folio::kMain) == 0) continue;
    const Victim victim = judge_main(id, word);
    if (victim.id != kNoFolio) return victim;
  }
}

Victim EvictionPolicy::next(uint64_t* budget) {
  if (kind_ == EvictKind::kClock) return next_clock(budget);
  if (kind_ != EvictKind::kS3Fifo) return next_aged(budget);
  // Of what there may be now: it can be less than at the start.
  if (probation_pages() > quota_of(arena_->limit() >> kPageShift)) {
    const Victim victim = next_small();
    if (victim.id != kNoFolio) return victim;
  }
  Victim victim = next_main(budget);
  if (victim.id == kNoFolio) victim = next_small();
  if (victim.id != kNoFolio) return victim;
  // All that was on probation has just joined the main part.
  uint64_t rounds = 3 * frames_;
  return next_main(&rounds);
}

// What was read ahead in vain, or is not to be read again, leaves no ghost:
// that it comes back would say nothing about it.
void EvictionPolicy::evicted(uint64_t file, PageIndex first, uint32_t word) {
  constexpr uint32_t kUnused = Folio::kReadahead | Folio::kOnce;
  if (kind_ != EvictKind::kS3Fifo || (word & kUnused) != 0) return;
  ghosts_.add(file, first, Folio::order_of(word));
}

bool EvictionPolicy::worth_keeping(uint32_t word) const {
  constexpr uint32_t kProved = Folio::kMain | Folio::kFrequent;
  return again_of(word) != 0 || (word & kProved) == kProved;
}

}  // namespace racache
