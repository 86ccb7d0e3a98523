// SPDX-License-Identifier: MIT
// The io_uring backend: one ring for all threads, completions reaped by
// whichever waiter holds the reaper role.
#pragma once

#include "core/backend.h"

namespace racache {

struct UringOptions {
  unsigned entries = 256;  // submission queue; four times as many in flight
  unsigned slots = 8192;   // files; fewer when RLIMIT_NOFILE says so
  int64_t poll_us = -1;    // poll before sleeping; -1 auto (poll_policy.h)
  // A sleeper looks around by itself after so long. Nothing relies on it as
  // long as the reaper is not frozen (a debugger, a stopped container).
  uint64_t sleep_ns = 100000000;
};

// Called by an application's thread inside a hook: no allocation, no errno, no
// descriptor below those in use left behind. The errno values of a refusal
// (EPERM, ENOSYS, EACCES, ENOMEM, EMFILE) tell why to go down the ladder.
[[nodiscard]] Expected<Backend*> make_uring(const UringOptions& options);

// How often each way of waiting was taken; for statistics and tests.
struct UringStats {
  uint64_t polls;      // times a wait polled
  uint64_t polled;     // of them: ended by polling
  uint64_t reaps;      // sleeps in io_uring_enter
  uint64_t sleeps;     // sleeps on a word
  uint64_t kicks;      // hand-overs of the reaper role to a sleeper
  uint64_t overflow;   // sleeps without a place in the sleepers' list
  uint64_t rescues;    // sleeps that only their time limit ended; should be 0
  uint64_t retried;    // reads cancelled by their thread's end, begun again
  uint64_t lost_core;  // polls given up because the core was taken away
};
[[nodiscard]] UringStats uring_stats(Backend& backend);

}  // namespace racache
