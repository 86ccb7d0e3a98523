// SPDX-License-Identifier: MIT
// A futex lock and the guard that makes it safe in signal handlers.
//
// Rule: a lock of the engine is taken only by a thread whose signals are
// blocked (SignalGuard), and never held across a copy to the application's
// buffer or a system call that may block. So a handler can never interrupt a
// holder on its own thread, and can never jump out over one.
//
// Ranks, outermost first: adoption (engine), file, metadata, arena, backend
// queue. A thread takes locks in that order only; the evictor, which meets
// files of any kind, uses try_lock on them.
#pragma once

#include <atomic>

#include "core/sys.h"

namespace racache {

class Lock {
 public:
  // 0 free, 1 held, 2 held with sleepers. acquire pairs with unlock's release.
  void lock() {
    uint32_t expected = 0;
    if (RACACHE_LIKELY(word_.compare_exchange_strong(
            expected, 1, std::memory_order_acquire))) {
      return;
    }
    lock_slow();
  }
  bool try_lock() {
    uint32_t expected = 0;
    return word_.compare_exchange_strong(expected, 1,
                                         std::memory_order_acquire);
  }
  void unlock() {
    if (word_.exchange(0, std::memory_order_release) == 2) {
      sys::futex_wake(&word_, 1);
    }
  }

 private:
  RACACHE_COLD void lock_slow() {
    for (int spin = 0; spin < 100; ++spin) {
      if (try_lock()) return;
      cpu_relax();
    }
    while (word_.exchange(2, std::memory_order_acquire) != 0) {
      sys::futex_wait(&word_, 2);
    }
  }
  static void cpu_relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
  std::atomic<uint32_t> word_{0};
};

class LockGuard {
 public:
  explicit LockGuard(Lock& lock) : lock_(lock) { lock_.lock(); }
  ~LockGuard() { lock_.unlock(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  Lock& lock_;
};

// Blocks every signal of this thread, as the kernel does for a thread that
// waits for a page: ordinary signals do not shorten or interrupt file reads.
class SignalGuard {
 public:
  SignalGuard() {
    const uint64_t all = ~uint64_t{0};
    sys::invoke(SYS_rt_sigprocmask, 0 /* SIG_BLOCK */, &all, &saved_,
                sizeof saved_);
  }
  ~SignalGuard() {
    sys::invoke(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, &saved_, 0L,
                sizeof saved_);
  }
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

 private:
  uint64_t saved_ = 0;
};

}  // namespace racache
