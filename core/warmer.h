// SPDX-License-Identifier: MIT
// The warmer thread: has the kernel clear blocks of the arena ahead of need,
// off the application's threads. Where free pages are handed back to a host,
// clearing can be slower than the device. It works only while the arena grows,
// in proportion to what is used already.
#pragma once

#include <atomic>

#include "core/arena.h"

namespace racache {

class Warmer {
 public:
  // Called by the service thread (its descriptor table is shared). Without a
  // thread nothing is prepared, and all still works.
  void start(Arena& arena);
  // Cheap; called where memory is about to be allocated.
  void nudge() {
    if (RACACHE_UNLIKELY(asleep_.load(std::memory_order_relaxed) != 0 &&
                         wanted())) {
      rouse();
    }
  }

 private:
  static void main(void* argument);
  void run();
  void rouse();
  [[nodiscard]] bool wanted() const;

  Arena* arena_ = nullptr;
  std::atomic<uint32_t> asleep_{0};  // futex; 1 while the thread sleeps
};

}  // namespace racache
