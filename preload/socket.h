// SPDX-License-Identifier: MIT
// Sockets with a receive or send timeout: their calls are not restarted after
// an interruption, see wait.cc.
#pragma once

#include <atomic>

#include "core/cache.h"

namespace racache::preload {

#pragma GCC visibility push(hidden)
// The program gave one to some socket. Few do, and a wait before each message
// would keep reads ahead from running beside it.
extern constinit std::atomic<bool> g_socket_timeouts;
#pragma GCC visibility pop

// Before a call that may wait on a socket.
inline void before_socket_wait() {
  if (RACACHE_UNLIKELY(g_socket_timeouts.load(std::memory_order_relaxed))) {
    engine::quiesce();
  }
}

// Before setsockopt(2).
void note_socket_option(int level, int option);

}  // namespace racache::preload
