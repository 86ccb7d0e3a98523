// SPDX-License-Identifier: MIT
// Reads ahead that their thread leaves to the background thread to submit.
//
// io_uring finishes a read by interrupting the thread that submitted it. A
// thread that writes to pipes and sockets would have to wait for its own reads
// before each such call (Backend::quiesce), and nothing would run beside it. So
// once a thread had to, its reads ahead go this way. Whoever is about to wait
// for a read submits what is still here: the background thread may be busy.
#pragma once

#include <atomic>

#include "core/backend.h"
#include "core/lock.h"

namespace racache {

class Relay {
 public:
  // Until then, and after close(), nothing is taken.
  void open() {
    LockGuard guard(lock_);
    open_ = true;
  }
  void close() {
    LockGuard guard(lock_);
    open_ = false;
  }
  // Signals blocked. False: the caller has to submit them itself.
  [[nodiscard]] bool add(ReadOp* const* reads, unsigned count) {
    LockGuard guard(lock_);
    if (!open_) return false;
    for (unsigned i = 0; i < count; ++i) {
      reads[i]->next = nullptr;
      (last_ == nullptr ? first_ : last_->next) = reads[i];
      last_ = reads[i];
    }
    pending_.store(true, std::memory_order_seq_cst);
    return true;
  }
  // seq_cst, as the background thread looks here before it sleeps.
  bool empty() const { return !pending_.load(std::memory_order_seq_cst); }
  // At most `room` of them, the oldest first. Signals blocked.
  [[nodiscard]] unsigned take(ReadOp** reads, unsigned room) {
    LockGuard guard(lock_);
    unsigned count = 0;
    for (; count < room && first_ != nullptr; ++count) {
      reads[count] = first_;
      first_ = first_->next;
    }
    if (first_ == nullptr) {
      last_ = nullptr;
      pending_.store(false, std::memory_order_relaxed);
    }
    return count;
  }

 private:
  Lock lock_;
  bool open_ = false;
  ReadOp* first_ = nullptr;
  ReadOp* last_ = nullptr;
  std::atomic<bool> pending_{false};
};

}  // namespace racache
