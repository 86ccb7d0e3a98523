// SPDX-License-Identifier: MIT
// The policies to compare with: clock, fifo, lru.
//
// fifo and lru give each folio the number of the 64th of the cache in which it
// came in; lru's survey, made once a 64th, gives those that were read again
// since the last survey the present number. What is older than a threshold
// goes, wherever the hand meets it; the survey sets the threshold so that a
// 64th is that old. Numbers are bytes that wrap: the survey sees every folio
// often enough that none is mistaken for a young one.
#include "core/eviction_policy.h"
#include "core/mapping.h"

namespace racache {
namespace {

constexpr uint64_t kSteps = 64;
constexpr uint8_t kOldest = 200;

}  // namespace

bool EvictionPolicy::init_ages(uint64_t frames) {
  ages_ = static_cast<uint8_t*>(mapping::reserve(frames, MADV_DONTFORK));
  return ages_ != nullptr;
}

uint8_t EvictionPolicy::step() const {
  return static_cast<uint8_t>(arrived_.load(kRelaxed) / (frames_ / kSteps));
}

void EvictionPolicy::set_age(FolioId id, uint8_t age) {
  __atomic_store_n(&ages_[id - 1], age, __ATOMIC_RELAXED);
}

// How many steps ago.
uint8_t EvictionPolicy::age_of(FolioId id) const {
  return static_cast<uint8_t>(
      step() - __atomic_load_n(&ages_[id - 1], __ATOMIC_RELAXED));
}

// Its second chance.
Victim EvictionPolicy::next_clock(uint64_t* budget) {
  for (;;) {
    const FolioId id = step_hand(budget);
    if (id == kNoFolio) return {kNoFolio, 0};
    std::atomic<uint32_t>& at = arena_->folio(id).word;
    const uint32_t word = at.load(kRelaxed);
    if (!Folio::alive(word)) continue;
    if ((word & Folio::kAgain) == 0) return {id, 0};
    at.fetch_and(~Folio::kAgain, kRelaxed);
  }
}

void EvictionPolicy::age_folio(FolioId id, uint32_t word,
                               uint64_t (&pages)[256]) {
  const bool used = kind_ == EvictKind::kLru && (word & Folio::kAgain) != 0;
  if (used) {
    arena_->folio(id).word.fetch_and(~Folio::kAgain, kRelaxed);
    set_age(id, step());
  } else if (age_of(id) > kOldest) {
    set_age(id, static_cast<uint8_t>(step() - kOldest));
  }
  pages[age_of(id)] += uint64_t{1} << Folio::order_of(word);
}

void EvictionPolicy::survey() {
  uint64_t pages[256] = {};
  for (FolioId id = arena_->next_in_use(1); id != kNoFolio;) {
    const uint32_t word = arena_->folio(id).word.load(kRelaxed);
    if (Folio::alive(word)) age_folio(id, word, pages);
    id = arena_->next_in_use(id + (FolioId{1} << Folio::order_of(word)));
  }
  uint64_t old = 0;
  unsigned age = 255;
  while (age != 0 && old + pages[age] < frames_ / kSteps) old += pages[age--];
  threshold_ = static_cast<uint8_t>(age);
  surveyed_ = step();
  circle_ = 0;
}

bool EvictionPolicy::too_young(FolioId id, uint32_t word) {
  if (age_of(id) < threshold_) return true;
  if (kind_ == EvictKind::kFifo || (word & Folio::kAgain) == 0) return false;
  arena_->folio(id).word.fetch_and(~Folio::kAgain, kRelaxed);
  set_age(id, step());
  return true;
}

Victim EvictionPolicy::next_aged(uint64_t* budget) {
  for (;;) {
    if (surveyed_ != step() || circle_ >= frames_) survey();
    const uint64_t before = *budget;
    const FolioId id = step_hand(budget);
    circle_ += before - *budget;
    if (id == kNoFolio) return {kNoFolio, 0};
    const uint32_t word = arena_->folio(id).word.load(kRelaxed);
    if (Folio::alive(word) && !too_young(id, word)) return {id, 0};
  }
}

}  // namespace racache
