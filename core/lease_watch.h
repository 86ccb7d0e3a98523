// SPDX-License-Identifier: MIT
// Whether leases are still being looked after.
//
// A writer's open waits for our lease, but not longer than the kernel lets it
// (/proc/sys/fs/lease-break-time, 45 s): a process that was stopped for longer,
// or whose service thread was, has lost its leases without having heard of it.
// So every read asks whether the service thread has looked for broken leases
// within half of that time. If it has, then whatever it has not heard of was
// broken after that look, and the writer is still waiting.
#pragma once

#include <atomic>

#include "core/sys.h"

namespace racache::lease_watch {

// In coarse_ns(); 0 before the first look. A variable of its own, and not the
// engine's, because every hit reads it.
#pragma GCC visibility push(hidden)
inline constinit std::atomic<uint64_t> until_ns{0};
#pragma GCC visibility pop

// Asked before the state of the file that is to be read. Acquire: what the look
// found broken, the reader then sees broken.
[[gnu::always_inline]] inline bool current() {
  const uint64_t until = until_ns.load(std::memory_order_acquire);
  return sys::coarse_ns() < until;
}

// Before the service thread is started: what a forked child inherited is not of
// its own.
inline void begin() { until_ns.store(0, std::memory_order_relaxed); }
[[nodiscard]] inline bool begun() {
  return until_ns.load(std::memory_order_relaxed) != 0;
}

// By the service thread: all breaks that were told before `look_ns`, of
// coarse_ns(), are obeyed. `break_time_ns`: lease::break_time_ns().
inline void looked(uint64_t look_ns, uint64_t break_time_ns) {
  until_ns.store(look_ns + break_time_ns / 2, std::memory_order_release);
}

}  // namespace racache::lease_watch
