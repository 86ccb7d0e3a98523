// SPDX-License-Identifier: MIT
// Memory for the index: leaves of 64 folio ids, and tables of any size.
// Bounded (a fraction of RACACHE_SIZE), MAP_NORESERVE, MADV_DONTFORK.
//
// Invariants
// - Pages touched, of leaves, tables and what describes them, never exceed
//   limit(); memory given back is kept for reuse and stays counted. Leaves get
//   at most three quarters, so that a file can be adopted when they are used
//   up.
// - A leaf that is free is all zero.
//
// Thread safety: one lock (rank: metadata, inside a file's), held for a
// membarrier at most; the caller has its signals blocked.
#pragma once

#include <atomic>

#include "core/epoch.h"
#include "core/lock.h"

namespace racache {

class Metadata {
 public:
  static constexpr uint64_t kLeafIds = 64;

  // What 1 % of the cache leaves for it, when `taken` bytes are used otherwise;
  // at least 256 KiB.
  static uint64_t budget(uint64_t cache_bytes, uint64_t taken) {
    constexpr uint64_t kLeast = 256 << 10;
    const uint64_t all = cache_bytes / 100;
    return all > taken + kLeast ? all - taken : kLeast;
  }
  // At most `bytes` in all (leaves and tables, as touched). ENOMEM.
  Expected<void> init(size_t bytes);
  void destroy();  // tests

  // Zeroed leaf number, or a negative value when the budget is used up.
  [[nodiscard]] int64_t allocate_leaf();
  // Reused only after a grace period. Clears what the leaf still holds.
  void retire_leaf(uint32_t leaf);
  std::atomic<uint32_t>* leaves() const { return leaves_; }
  // Ids in the leaf: kept here for the index, which writes it under the file's
  // lock. Outside the leaf, whose four cache lines a lookup shares with no one.
  std::atomic<uint32_t>& leaf_count(uint32_t leaf) const {
    return infos_[leaf].count;
  }

  // Zeroed memory for a table, or nullptr. Small ones come from size classes,
  // large ones (>= 64 KiB) from a mapping of their own, counted as touched.
  [[nodiscard]] void* allocate_table(size_t bytes);
  // About forks: MADV_DOFORK or MADV_DONTFORK. The second, a table: a large one
  // is told for itself, small ones are part of the whole.
  void advise(int advice) const;
  void advise_table(void* table, size_t bytes, int advice) const;
  void free_table(void* table, size_t bytes);
  // To be called, by one thread at a time for a table, before the first store
  // to the page of byte `offset`: false when the budget does not allow it.
  [[nodiscard]] bool charge_table(void* table, size_t bytes, size_t offset);
  // The next byte >= offset that lies on a charged page, or `bytes`: all else
  // is zero.
  size_t next_charged(const void* table, size_t bytes, size_t offset) const;

  size_t used() const {  // bytes in use now
    return used_.load(std::memory_order_relaxed);
  }
  size_t touched() const {  // what limit() limits
    return touched_.load(std::memory_order_relaxed);
  }
  size_t limit() const { return limit_; }

 private:
  struct LeafInfo {
    std::atomic<uint32_t> count;
    uint32_t next;  // free or retired: the next one's number + 1; 0 ends
  };
  struct LeafList {
    uint32_t head = 0;  // number + 1
    uint32_t tail = 0;
    uint32_t count = 0;
  };
  struct Region {  // grows upwards, touched page by page
    std::byte* base = nullptr;
    size_t size = 0;
    size_t used = 0;
  };
  static constexpr unsigned kClasses = 11;  // 64 bytes .. 64 KiB

  static bool reserve(Region& region, size_t bytes);
  static void release(Region& region);
  bool charge(size_t bytes);
  void count_used(size_t bytes);
  bool charge_large(size_t bytes);
  void uncharge_large(size_t bytes);
  bool grow(Region& region, size_t bytes);
  bool grow_leaves();
  void reclaim_leaves();
  void append(LeafList& list, uint32_t leaf);
  void* small_table(size_t bytes);
  void* large_table(size_t bytes);

  std::atomic<uint32_t>* leaves_ = nullptr;
  LeafInfo* infos_ = nullptr;
  size_t limit_ = 0;
  std::atomic<size_t> used_{0};  // both written under lock_
  std::atomic<size_t> touched_{0};

  Lock lock_;
  Region leaf_region_;
  Region info_region_;
  Region table_region_;
  LeafList free_leaves_;
  LeafList retiring_;  // collecting
  LeafList retired_;   // stamped, waiting for the grace period to pass
  epoch::Stamp stamp_ = 0;
  void* free_tables_[kClasses] = {};  // linked by their first word
};

}  // namespace racache
