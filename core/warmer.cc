// SPDX-License-Identifier: MIT
#include "core/warmer.h"

#include "core/thread.h"

namespace racache {
namespace {
constexpr uint64_t kMostAhead = 32;  // blocks: 64 MiB
}

// Half as much ahead as is in use, so that a small reader costs little.
bool Warmer::wanted() const {
  const uint64_t fresh = arena_->fresh_blocks();
  if (fresh == 0) return false;
  const uint64_t used = arena_->block_count() - fresh;
  const uint64_t ahead = used / 2 < kMostAhead ? used / 2 : kMostAhead;
  return arena_->prepared_blocks() < ahead;
}

void Warmer::start(Arena& arena) {
  arena_ = &arena;
  if (start_thread("racache-warm", main, this) < 0) arena_ = nullptr;
}

void Warmer::main(void* argument) { static_cast<Warmer*>(argument)->run(); }

void Warmer::run() {
  for (;;) {
    while (wanted() && arena_->prepare_block()) {
    }
    asleep_.store(1, std::memory_order_release);
    while (asleep_.load(std::memory_order_acquire) != 0) {
      sys::futex_wait(&asleep_, 1);
    }
  }
}

void Warmer::rouse() {
  if (asleep_.exchange(0, std::memory_order_acq_rel) != 0) {
    sys::futex_wake(&asleep_, 1);
  }
}

}  // namespace racache
