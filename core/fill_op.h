// SPDX-License-Identifier: MIT
// A device read in flight, the pool of them, and what its answer does.
#pragma once

#include "core/backend.h"
#include "core/file.h"

namespace racache {

// One device read in flight: a run of folios contiguous in the file.
struct FillOp {
  ReadOp read;
  File* file;
  uint32_t first;  // page
  uint32_t pages;
  bool buffered;  // from the kernel's page cache
  FillOp* next;   // free list, or the batch being built
  iovec iov[kMaxIov];
};

// Bounded pool of FillOps; it caps what is in flight.
class OpPool {
 public:
  Expected<void> init(uint32_t count);
  void destroy();  // of a start that failed, and tests
  [[nodiscard]] FillOp* get();
  void put(FillOp* op);
  bool idle() const { return busy_.load(std::memory_order_acquire) == 0; }
  uint32_t busy() const { return busy_.load(std::memory_order_relaxed); }
  uint32_t count() const { return count_; }

 private:
  Lock lock_;
  FillOp* ops_ = nullptr;
  FillOp* free_ = nullptr;
  uint32_t count_ = 0;
  uint32_t touched_ = 0;
  std::atomic<uint32_t> busy_{0};
};

namespace fill_op {

// Bytes that the op's read must bring: up to the file's end.
[[nodiscard]] uint64_t expected_bytes(const FillOp& op);
// The backend's answer: folios become up to date, or leave the index.
void on_done(ReadOp& read, long result);
// The backend did not take it.
void refuse(FillOp& op);

}  // namespace fill_op

}  // namespace racache
