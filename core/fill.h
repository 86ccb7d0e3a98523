// SPDX-License-Identifier: MIT
// From a readahead plan to device reads and back: folios are allocated,
// published in the file's index as `filling` (so whoever comes second waits
// for the first: a device range is never read twice at the same time), read,
// and completed.
#pragma once

#include "core/backend.h"
#include "core/cache.h"
#include "core/file.h"
#include "core/readahead.h"

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

namespace fill {

// All of these are called with signals blocked, no lock held and outside any
// epoch section. `fd` is a hint for cachestat(2), -1 for none.

// Page `page` is absent; `request` pages are left of the read.
void on_miss(File& file, OpenStream& stream, PageIndex page, uint64_t request,
             int fd);
// The mark of the folio [first, 2^order) was met and cleared.
void on_mark(File& file, OpenStream& stream, PageIndex first, unsigned order,
             uint64_t request, int fd);
// Forced: reads [page, end) as far as memory and ops allow without waiting.
// Returns the first page that was not taken on.
PageIndex force(File& file, PageIndex page, PageIndex end, int fd);

}  // namespace fill
}  // namespace racache
