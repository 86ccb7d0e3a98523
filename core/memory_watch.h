// SPDX-License-Identifier: MIT
// How much memory the cache may have at present. The kernel takes its page
// cache back when others need memory; what is ours it cannot, so it kills
// somebody instead. Here is who sees that coming: the background thread looks
// at RAM and control groups several times a second, gives memory back before
// there is need, and takes it again when there has been room for a while.
//
// The size that was asked for follows the limit of the control group, if it is
// a percentage; it never exceeds what was reserved at the start.
#pragma once

#include <atomic>
#include <ctime>

#include "core/base.h"

namespace racache {

struct Engine;

class MemoryWatch {
 public:
  static constexpr timespec kPeriod{0, 300'000'000};
  static constexpr timespec kHurry{0, 50'000'000};     // while there is need
  static constexpr uint64_t kCalmNs = 10'000'000'000;  // before growing again

  // The background thread's; returns at once between two looks.
  void look(Engine& engine);
  // Until the next look.
  const timespec& pause() const { return need_ ? kHurry : kPeriod; }
  // Whether there is enough to be worth a look, or could be more again.
  [[nodiscard]] static bool wanted(const Engine& engine);

  // For the statistics: bytes given back, ever; time with less than was asked.
  uint64_t given_back() const {
    return given_back_.load(std::memory_order_relaxed);
  }
  uint64_t pressed_ns() const {
    return pressed_ns_.load(std::memory_order_relaxed);
  }

  struct State {
    uint64_t configured;  // bytes asked for
    uint64_t held;        // bytes of memory that the cache has
    uint64_t target;      // what it was allowed so far
    int64_t slack;        // limits::Memory::slack
    bool calm;            // no need for kCalmNs
  };
  // What it is allowed from now on: what is there less what others need; or
  // half of what is left on top of it, so that the other half is left even if
  // all of ours is used before the next look.
  [[nodiscard]] static uint64_t next_target(const State& state);
  // The slack of two periods from now, if others go on taking as they did: what
  // was there for all but the cache is `before` and `now`, `elapsed_ns` apart.
  [[nodiscard]] static int64_t foresee(int64_t slack, int64_t before,
                                       int64_t now, uint64_t elapsed_ns);

 private:
  int64_t slack_ahead(int64_t slack, uint64_t held, uint64_t now_ns);
  void account(uint64_t now_ns, uint64_t configured, uint64_t target);

  uint64_t next_look_ns_ = 0;
  uint64_t last_look_ns_ = 0;
  uint64_t calm_from_ns_ = 0;
  int64_t last_room_ = 0;  // slack without the cache
  bool need_ = false;
  std::atomic<uint64_t> given_back_{0};
  std::atomic<uint64_t> pressed_ns_{0};
};

}  // namespace racache
