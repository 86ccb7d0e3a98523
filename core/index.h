// SPDX-License-Identifier: MIT
// Per file: page number -> folio.
//
// One 32-bit entry for each group of 64 pages (256 KiB), in a table sized at
// adoption, since a cached file's size is constant. An entry is empty, names a
// folio of order >= 6 that covers the group, or names a leaf of 64 folio ids.
// A folio that covers several entries is repeated in each, so a lookup is two
// loads and no loop.
//
// Invariants: a leaf in the table holds at least one folio (the last erase
// unlinks it); a page of the table is charged to the Metadata before it is
// written to.
//
// lookup() is lock-free inside an epoch section, and so are next_hole() and
// previous_hole(), whose answers may then be out of date. Everything else needs
// the file's lock. An emptied leaf is reused only after a grace period.
#pragma once

#include <atomic>

#include "core/base.h"
#include "core/epoch.h"

namespace racache {

class Metadata;

class FileIndex {
 public:
  enum class Insert : uint8_t { kOk, kExists, kNoMemory };

  // For a file of `pages` pages (1 .. 2^32-1). ENOMEM.
  Expected<void> init(uint64_t pages, Metadata& metadata);
  // Gives all memory back; no reader may be left (after a grace period).
  void destroy();

  // About forks: MADV_DOFORK or MADV_DONTFORK. Not while it is destroyed.
  void advise(int advice) const;

  RACACHE_HOT FolioId lookup(PageIndex page) const {
    const uint32_t e =
        table_[page >> kGroupShift].load(std::memory_order_acquire);
    if (RACACHE_LIKELY(static_cast<int32_t>(e) > 0)) return e;  // no leaf
    if (e == 0) return kNoFolio;
    return leaf(e)[page & (kGroupPages - 1)].load(std::memory_order_acquire);
  }

  // Publishes a folio at its natural position; kExists when any page of it is
  // taken (nothing is changed then), kNoMemory when no leaf can be had.
  Insert insert(PageIndex first, unsigned order, FolioId folio);
  // Unpublishes it.
  void erase(PageIndex first, unsigned order);

  // The first page >= from that has no folio, looking at no more than
  // max_scan pages; from + max_scan when all of them are taken.
  PageIndex next_hole(PageIndex from, uint64_t max_scan) const;
  // The first page >= from that has one, < limit; limit when there is none.
  PageIndex next_present(PageIndex from, PageIndex limit) const;
  // kernel-semantics.md 2.8 step 5: examining at most max_scan pages downwards
  // from `from`: the first hole; ~0 when the scan steps below page 0; the last
  // page examined when all were taken.
  PageIndex previous_hole(PageIndex from, uint64_t max_scan) const;

 private:
  static constexpr unsigned kGroupShift = 6;
  static constexpr uint64_t kGroupPages = 64;
  static constexpr uint32_t kLeaf = 1u << 31;

  std::atomic<uint32_t>* leaf(uint32_t entry) const {
    return leaves_ + size_t{entry & ~kLeaf} * kGroupPages;
  }
  size_t table_bytes() const { return groups_ * sizeof(uint32_t); }
  PageIndex end() const { return groups_ << kGroupShift; }
  uint32_t entry_of(PageIndex page) const;
  bool leaf_is_full(uint32_t entry) const;
  bool charge(uint64_t group);
  uint32_t leaf_for(uint64_t group);
  Insert insert_large(uint64_t group, uint64_t count, FolioId folio);
  Insert insert_small(PageIndex first, uint64_t count, FolioId folio);
  void erase_from_leaf(PageIndex first, uint64_t count);
  uint64_t taken_from(PageIndex page) const;
  uint64_t taken_down_from(PageIndex page) const;
  PageIndex present_in(uint32_t entry, PageIndex page) const;
  uint64_t next_group(uint64_t group) const;

  std::atomic<uint32_t>* table_ = nullptr;
  std::atomic<uint32_t>* leaves_ = nullptr;  // the Metadata's leaf array
  uint64_t groups_ = 0;
  Metadata* metadata_ = nullptr;
};

}  // namespace racache
