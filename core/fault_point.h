// SPDX-License-Identifier: MIT
// Where memory may be refused. In libracache.so this is nothing at all; unit
// tests that refuse it link an engine compiled with RACACHE_FAULT_POINTS, in
// which every allocation asks first, so that each can be made to fail in turn.
#pragma once

#include <cstdint>

#ifdef RACACHE_FAULT_POINTS
#include <sys/syscall.h>
#include <atomic>
#endif

namespace racache::fault {

#ifdef RACACHE_FAULT_POINTS

inline constexpr int64_t kNever = INT64_MAX / 2;
// Allocations until the refused one, and whether all after it fail, too. Any
// thread counts down; relaxed, for nothing is ordered by it.
inline std::atomic<int64_t> countdown{kNever};
inline std::atomic<bool> for_good{false};

inline void arm(int64_t nth, bool all_after) {
  for_good.store(all_after);
  countdown.store(nth);
}
inline void disarm() { arm(kNever, false); }
// Whether the refused allocation has been reached since arm().
inline bool reached() { return countdown.load() <= 0; }

inline bool point() {
  const int64_t left = countdown.fetch_sub(1, std::memory_order_relaxed) - 1;
  return left == 0 || (left < 0 && for_good.load(std::memory_order_relaxed));
}
// System calls that can fail for want of memory.
inline bool point(long nr) {
  return (nr == SYS_mmap || nr == SYS_mremap || nr == SYS_madvise ||
          nr == SYS_openat || nr == SYS_membarrier ||
          nr == SYS_io_uring_register) &&
         point();
}

#else

constexpr bool point() { return false; }
constexpr bool point(long) { return false; }

#endif

}  // namespace racache::fault
