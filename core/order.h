// SPDX-License-Identifier: MIT
// What every thread of ours must do because the program's threads did it: a
// system call that changes the calling thread only (setresuid(2) and so on),
// which libc makes on all threads that it knows.
#pragma once

#include <atomic>

#include "core/sys.h"

namespace racache {

struct Order {
  long number, a = 0, b = 0, c = 0;

  // On the calling thread. False when the kernel refuses.
  bool obey() const { return !sys::failed(sys::call(number, a, b, c)); }
};

// The orders of one thread, one at a time.
class Orders {
 public:
  // By the thread.
  [[nodiscard]] bool any() const { return order_.load() != nullptr; }
  void obey() {
    const Order* order = order_.load(std::memory_order_acquire);
    if (order == nullptr) return;
    obeyed_.store(order->obey(), std::memory_order_relaxed);
    order_.store(nullptr, std::memory_order_release);
  }
  // By another, which waits: `rouse` wakes the thread should it sleep. False
  // when it could not obey.
  template <class Rouse>
  [[nodiscard]] bool give(const Order& order, const Rouse& rouse) {
    order_.store(&order, std::memory_order_seq_cst);
    while (order_.load(std::memory_order_acquire) != nullptr) {
      rouse();
      sys::invoke(SYS_sched_yield);
    }
    return obeyed_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<const Order*> order_{nullptr};
  std::atomic<bool> obeyed_{false};
};

}  // namespace racache
