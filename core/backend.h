// SPDX-License-Identifier: MIT
// The seam between the cache and the device: who reads, and who waits.
//
// Three implementations: `uring` (one ring shared by all threads), `threads`
// (workers in the service thread's private descriptor table, where io_uring is
// refused) and, for tests, `fake` (scripted latency, errors, short reads,
// order).
//
// Contract
// - submit() takes ops whose iovecs lie in the arena or another memory that
//   stays valid until done; the op itself stays the caller's and must stay
//   valid until its done() has run. It never blocks for the device; it returns
//   how many ops, from the front, it took. Those not taken never run.
// - Each op's done(op, result) runs exactly once, on any thread (signals
//   blocked, no lock of the backend held), with the number of bytes read or
//   -errno. done() may submit() again.
// - wait(word, mask) returns when (word & mask) == 0. Waiters sleep on `word`
//   as a futex: before sleeping they set Folio::kWaiters in it, and whoever
//   clears the mask bits and saw kWaiters wakes them all. Whichever waiter
//   holds the reaper role reaps completions for everyone; when it leaves with
//   others still asleep, the role is passed on, so no completion is left
//   behind because one thread is busy. Called with signals blocked, no lock
//   held, outside any epoch section.
// - attach()/detach() are called by the service thread only.
#pragma once

#include <sys/uio.h>
#include <atomic>

#include "core/base.h"

namespace racache {

struct ReadOp {
  uint32_t slot;       // from attach()
  uint32_t iov_count;  // 1 .. kMaxIov
  uint64_t offset;     // bytes; aligned for direct slots
  iovec* iov;
  size_t bytes;  // sum of the iovecs
  void (*done)(ReadOp& op, long result);
  ReadOp* next;    // the backend's own, while the op is in flight
  uint32_t group;  // likewise
  void* user;    // the caller's
};
inline constexpr unsigned kMaxIov = 128;
inline constexpr uint64_t kReaperNap = 1000000;  // ns

struct Backend {
  const char* name;  // "uring", "threads", "fake"

  unsigned (*submit)(Backend& self, ReadOp* const* ops, unsigned count);
  void (*wait)(Backend& self, std::atomic<uint32_t>& word, uint32_t mask);
  // Reaps what has completed, without a system call where possible.
  void (*poll)(Backend& self);
  // Makes a descriptor (of the service thread's table) readable by ops;
  // returns its slot, or -errno (-ENFILE when the table is full).
  int (*attach)(Backend& self, int fd);
  // The caller guarantees that no op on the slot is in flight.
  void (*detach)(Backend& self, int slot);
  // The descriptor numbers of ours among the application's, -1 for none.
  int (*ring_fd)(Backend& self);
  // Moves the ring's descriptor elsewhere, off `fd`, for a dup2 onto it.
  bool (*move_ring_fd)(Backend& self);
  bool (*lost)(Backend& self);  // the ring was closed under us
  // Waits until nothing that this thread submitted is in flight, at most 100 ms.
  // io_uring finishes reads by interrupting the thread that submitted them; a
  // system call that reports that as EINTR (epoll_wait, semop), or that is deaf
  // to it (vfork), should not begin before.
  void (*quiesce)(Backend& self);
  // The end, while others may still be reading: nothing more is taken, what was
  // taken gets its answer, files and descriptors go. Service thread gone.
  void (*close)(Backend& self);
  // Frees everything. Nothing is in flight and no one waits.
  void (*destroy)(Backend& self);
};

}  // namespace racache
