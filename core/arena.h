// SPDX-License-Identifier: MIT
// The cache's memory: one reserved range of 2 MiB blocks, a buddy allocator
// inside each block, and one Folio per page frame.
//
// Invariants
// - The range is MAP_NORESERVE, MADV_DONTFORK and (unless hugepages=never)
//   MADV_HUGEPAGE: a forked child has none of it, and it costs no memory until
//   used. Folio array likewise (not huge).
// - Allocation prefers memory that has been used or prepared before: the
//   kernel clears fresh memory, which can be slower than the device.
// - No more than limit() is taken from the kernel than is held already; what is
//   held beyond it, after allow(), is withdrawn block by block as it comes
//   free.
// - Each free run is as large as its neighbours let it be: release() merges
//   buddies up to a whole block.
//
// Thread safety: allocate and release take the arena's lock (rank: arena); the
// caller has its signals blocked. memory() and folio() are pure arithmetic.
// The figures are relaxed atomics, approximate while others allocate.
#pragma once

#include <atomic>

#include "core/folio.h"
#include "core/lock.h"

namespace racache {

enum class HugePages : uint8_t { kAuto, kAlways, kNever };

class Arena {
 public:
  // Reserves `bytes` (rounded down to blocks, at least one). ENOMEM when the
  // address space cannot be had (RLIMIT_AS); the caller then asks for less.
  Expected<void> init(size_t bytes, HugePages huge_pages);
  void advise(int advice) const;  // about forks: MADV_DOFORK, MADV_DONTFORK
  void destroy();  // tests only; a process never gives its arena back

  // A naturally aligned folio of 2^order pages, or kNoFolio. The memory's
  // content is unspecified. The Folio's word has its generation and the order,
  // and no state bit.
  [[nodiscard]] FolioId allocate(unsigned order);
  // Gives back a folio that no reader can hold any more.
  void release(FolioId folio, unsigned order);

  std::byte* memory(FolioId id) const {
    return base_ + (size_t{id - 1} << kPageShift);
  }
  Folio& folio(FolioId id) const { return folios_[id - 1]; }

  // Bytes of memory that the cache may have at present: all of it, or less.
  size_t limit() const {
    return allowed_.load(std::memory_order_relaxed) * kBlockSize;
  }
  uint64_t free_pages() const;  // approximate
  // The largest order that could be allocated now; -1 when full. Approximate.
  int largest_free_order() const;

  // Has the kernel clear one more fresh block (MADV_POPULATE_WRITE, or stores)
  // off the application's threads. False when none is left or memory is short.
  bool prepare_block();
  uint64_t fresh_blocks() const;     // may still be taken from the kernel
  uint64_t held_blocks() const;      // have memory, in use or not
  uint64_t prepared_blocks() const;  // populated by prepare_block, not yet used

  // How many blocks may be held from now on; at least one, at most all. The
  // background thread's.
  void allow(uint64_t blocks);
  uint64_t excess_blocks() const;  // held, and not allowed
  // Gives the memory of one free block, of those in excess, back to the kernel.
  // False: none is in excess, or no block is free as a whole.
  bool withdraw_block();
  size_t metadata_bytes() const;  // of the folio array, as touched

  // Bytes in huge pages at present. Asks the kernel, which walks them all.
  uint64_t huge_bytes() const;

  // For the clock hand: the first folio in use whose head is at or after
  // `from` (1: the beginning), kNoFolio when none is left. Takes no lock and
  // may be out of date: whoever acts on the answer re-checks with try_kill(),
  // and believes file and index only if the file's index, under its lock, has
  // this folio there. To go on, ask from id + pages.
  FolioId next_in_use(FolioId from) const;
  uint64_t block_count() const { return blocks_; }
  // Blocks from the first on that were ever held.
  uint64_t touched_blocks() const {
    return touched_.load(std::memory_order_relaxed);
  }

 private:
  static FolioId head_of_block(uint64_t block) {
    return static_cast<FolioId>(block * kBlockPages + 1);
  }
  bool is_free(FolioId id, unsigned order) const;
  void set_word(FolioId id, uint32_t low);
  void set_previous(FolioId id, FolioId previous);
  void push(FolioId id, unsigned order);
  void unlink(FolioId id, unsigned order);
  FolioId split(FolioId id, unsigned from, unsigned to);
  FolioId merge(FolioId id, unsigned* order);
  bool carve();
  FolioId take_fresh();
  FolioId claim_fresh();
  void finish_fresh(FolioId id, bool populated);
  FolioId pop(FolioId* list, std::atomic<uint64_t>& count);
  void push(FolioId* list, std::atomic<uint64_t>& count, FolioId id);

  std::byte* base_ = nullptr;
  Folio* folios_ = nullptr;
  uint64_t blocks_ = 0;

  // Written under lock_; the atomics are read without it, for the figures.
  Lock lock_;
  FolioId free_[kOrders] = {};        // doubly linked by Folio::link and index
  FolioId prepared_ = kNoFolio;       // heads of blocks, linked by Folio::link
  FolioId withdrawn_ = kNoFolio;      // likewise: without memory
  std::atomic<uint32_t> orders_{0};   // bit k: free_[k] is not empty
  std::atomic<uint64_t> listed_{0};   // pages on the free lists
  std::atomic<uint64_t> touched_{0};  // blocks from here on were never held
  std::atomic<uint64_t> prepared_count_{0};
  std::atomic<uint64_t> withdrawn_count_{0};
  std::atomic<uint64_t> allowed_{0};
};

}  // namespace racache
