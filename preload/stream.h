// SPDX-License-Identifier: MIT
// Calls on streams that a finished read of ours would cut short (wait.cc says
// why): those that move many bytes stop in the middle and say how many, and on
// sockets with a receive or send timeout all report EINTR.
#pragma once

#include <atomic>

#include "core/cache.h"

namespace racache::preload {

#pragma GCC visibility push(hidden)
// The program gave a timeout to some socket. Few do, and a wait before each
// message would keep reads ahead from running beside it.
extern constinit std::atomic<bool> g_socket_timeouts;
#pragma GCC visibility pop

// Before a call that may wait on a socket.
inline void before_socket_wait() {
  if (RACACHE_UNLIKELY(g_socket_timeouts.load(std::memory_order_relaxed))) {
    engine::quiesce();
  }
}

RACACHE_COLD void wait_before_stream(int fd);
// Before a call that is expected to move all of its bytes.
inline void before_stream(int fd) {
  if (RACACHE_UNLIKELY(engine::interruptible())) wait_before_stream(fd);
}

// Before bytes go from one descriptor to another inside the kernel: between two
// files as well it looks for signals page by page.
inline void before_transfer() {
  if (RACACHE_UNLIKELY(engine::interruptible())) engine::quiesce();
}

RACACHE_COLD void wait_before_device(int fd);
// Before a read that is not ours: /dev/zero and /dev/urandom stop like streams,
// and sockets may have a timeout.
inline void before_foreign_read(int fd) {
  if (RACACHE_UNLIKELY(engine::interruptible())) wait_before_device(fd);
}

RACACHE_COLD void wait_before_linger(int fd);
// Before close(2), which may wait for what a socket has not sent yet.
inline void before_close(int fd) {
  if (RACACHE_UNLIKELY(engine::interruptible())) wait_before_linger(fd);
}

// getrandom(2) looks for signals between blocks of this size.
inline constexpr size_t kRandomBlock = 256;
inline void before_random(size_t count) {
  if (count > kRandomBlock) engine::quiesce();
}

// Before recv(2) and relatives: MSG_WAITALL asks for all bytes.
void before_receive(int fd, int flags);
// Before send(2) and relatives.
void before_send(int fd, int flags);
// Before setsockopt(2).
void note_socket_option(int level, int option);

}  // namespace racache::preload
