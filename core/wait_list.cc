// SPDX-License-Identifier: MIT
#include "core/wait_list.h"

#include <cerrno>

namespace racache {
namespace {

// Sleeps end after this long even when nobody wakes the sleeper. Nothing relies
// on it.
constexpr uint64_t kLongSleep = 100000000;

}  // namespace

bool sleep_on(const std::atomic<uint32_t>& word, uint32_t expected,
              uint64_t ns) {
  const timespec timeout = sys::to_timespec(ns);
  return sys::futex_wait(&word, expected, &timeout) != -ETIMEDOUT;
}

void nap(uint64_t ns) {
  const timespec time = sys::to_timespec(ns);
  sys::invoke(SYS_nanosleep, &time, 0L);
}

void wait_without_reaper(std::atomic<uint32_t>& word, uint32_t mask) {
  uint32_t seen = word.load(std::memory_order_acquire);
  while ((seen & mask) != 0) {
    // Relaxed: the filler's own read-modify-write of the word sees kWaiters or
    // comes first, and then the kernel finds the word changed.
    seen = word.fetch_or(Folio::kWaiters, std::memory_order_relaxed) |
           Folio::kWaiters;
    if ((seen & mask) != 0) sleep_on(word, seen, kLongSleep);
    seen = word.load(std::memory_order_acquire);
  }
}

int SleeperList::add(std::atomic<uint32_t>& word) {
  LockGuard guard(lock_);
  const uint64_t used = used_.load(std::memory_order_relaxed);
  if (~used == 0) return -1;
  const unsigned place = trailing_zeros(~used);
  words_[place] = &word;
  used_.store(used | uint64_t{1} << place, std::memory_order_seq_cst);
  return static_cast<int>(place);
}

void SleeperList::remove(int place) {
  if (place < 0) return;
  LockGuard guard(lock_);
  const uint64_t used = used_.load(std::memory_order_relaxed);
  used_.store(used & ~(uint64_t{1} << place), std::memory_order_seq_cst);
}

bool SleeperList::kick_one() {
  std::atomic<uint32_t>* word;
  {
    LockGuard guard(lock_);
    const uint64_t used = used_.load(std::memory_order_relaxed);
    if (used == 0) return false;
    word = words_[trailing_zeros(used)];
    // Relaxed: the futex compares the word under the kernel's own lock.
    const uint32_t old =
        word->fetch_or(Folio::kKick, std::memory_order_relaxed);
    if ((old & Folio::kKick) != 0) return false;
  }
  // The word may be gone by now; then the kernel finds no one to wake.
  sys::futex_wake(word, 1);
  return true;
}

}  // namespace racache
