// SPDX-License-Identifier: MIT
// Sleeping on a word until its fill is over, as every backend does it, and the
// list of sleepers from which a departing reaper picks its successor.
//
// A sleeper sets Folio::kWaiters in the word and sleeps on it as a futex; who
// clears the mask bits wakes them all. The list is for the other reason to wake
// up: someone must reap completions. Kicking a sleeper sets Folio::kKick in its
// word, so that the kernel refuses to put it to sleep if it was just about to,
// and wakes it if it already was. The bit is set by the kicker and cleared by a
// sleeper only, so two kicks can never cancel each other out.
#pragma once

#include <atomic>

#include "core/folio.h"
#include "core/lock.h"

namespace racache {

// Acquire: pairs with the release by which a fill clears the mask bits, so that
// the waiter sees the memory filled.
inline bool busy(const std::atomic<uint32_t>& word, uint32_t mask) {
  return (word.load(std::memory_order_acquire) & mask) != 0;
}

// Sleeps while the word is `expected`, at most `ns`. False when time ran out.
bool sleep_on(const std::atomic<uint32_t>& word, uint32_t expected,
              uint64_t ns);
void nap(uint64_t ns);

// wait() of a backend whose completions need no reaper.
void wait_without_reaper(std::atomic<uint32_t>& word, uint32_t mask);

class SleeperList {
 public:
  static constexpr int kRoom = 64;

  // Returns the place taken, or -1 when there is none: then nobody can kick
  // the caller, and it must not sleep long.
  int add(std::atomic<uint32_t>& word);
  void remove(int place);
  // Wakes one sleeper, unless it has been kicked already.
  // Returns whether a wake-up was sent.
  bool kick_one();
  // seq_cst: ordered against the caller's giving up of the reaper role, as
  // add() is against the sleeper's look at that role.
  bool empty() const { return used_.load(std::memory_order_seq_cst) == 0; }

 private:
  Lock lock_;  // a word in the list stays valid while it is held
  std::atomic<uint64_t> used_{0};
  std::atomic<uint32_t>* words_[kRoom] = {};
};

}  // namespace racache
