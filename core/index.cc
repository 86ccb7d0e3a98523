// SPDX-License-Identifier: MIT
// Writers hold the file's lock, so they load relaxed what only writers store.
// A store that publishes a folio or a leaf is a release and pairs with the
// acquires of lookup(). One that unpublishes is relaxed: epoch::retire(), which
// follows it, orders it.
#include "core/index.h"

#include <cerrno>

#include "core/metadata.h"

namespace racache {
namespace {

constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;

}  // namespace

Expected<void> FileIndex::init(uint64_t pages, Metadata& metadata) {
  const uint64_t groups = (pages + kGroupPages - 1) >> kGroupShift;
  void* table = metadata.allocate_table(groups * sizeof(uint32_t));
  if (table == nullptr) return tl::unexpected(Errno{ENOMEM});
  table_ = static_cast<std::atomic<uint32_t>*>(table);
  leaves_ = metadata.leaves();
  groups_ = groups;
  metadata_ = &metadata;
  return {};
}

// Folios that are still in it are simply forgotten; their owner has them.
void FileIndex::advise(int advice) const {
  if (table_ != nullptr) metadata_->advise_table(table_, table_bytes(), advice);
}

void FileIndex::destroy() {
  if (table_ == nullptr) return;
  for (uint64_t g = next_group(0); g < groups_; g = next_group(g + 1)) {
    const uint32_t entry = table_[g].load(kRelaxed);
    if ((entry & kLeaf) != 0) metadata_->retire_leaf(entry & ~kLeaf);
  }
  metadata_->free_table(table_, table_bytes());
  table_ = nullptr;
  groups_ = 0;
}

// The first group >= `group` whose entry lies in a part of the table that was
// ever written to.
uint64_t FileIndex::next_group(uint64_t group) const {
  return metadata_->next_charged(table_, table_bytes(),
                                 group * sizeof(uint32_t)) /
         sizeof(uint32_t);
}

bool FileIndex::charge(uint64_t group) {
  return metadata_->charge_table(table_, table_bytes(),
                                 group * sizeof(uint32_t));
}

// Out of the table is "no memory": the caller tries a smaller folio, which ends
// within the file.
FileIndex::Insert FileIndex::insert(PageIndex first, unsigned order,
                                    FolioId folio) {
  const uint64_t count = uint64_t{1} << order;
  if (first >= end() || count > end() - first) return Insert::kNoMemory;
  if (order < kGroupShift) return insert_small(first, count, folio);
  return insert_large(first >> kGroupShift, count >> kGroupShift, folio);
}

// Checks all, charges all, then stores: a refusal changes nothing.
FileIndex::Insert FileIndex::insert_large(uint64_t group, uint64_t count,
                                          FolioId folio) {
  for (uint64_t i = 0; i < count; ++i) {
    if (table_[group + i].load(kRelaxed) != 0) return Insert::kExists;
  }
  // At most 8 groups, aligned: they lie on one page of the table.
  if (!charge(group)) return Insert::kNoMemory;
  for (uint64_t i = 0; i < count; ++i) table_[group + i].store(folio, kRelease);
  return Insert::kOk;
}

// A new leaf is filled before it is linked, so a reader finds it complete.
FileIndex::Insert FileIndex::insert_small(PageIndex first, uint64_t count,
                                          FolioId folio) {
  const uint64_t group = first >> kGroupShift;
  const uint64_t at = first & (kGroupPages - 1);
  uint32_t entry = table_[group].load(kRelaxed);
  if (entry != 0 && (entry & kLeaf) == 0) return Insert::kExists;
  for (uint64_t i = 0; entry != 0 && i < count; ++i) {
    if (leaf(entry)[at + i].load(kRelaxed) != 0) return Insert::kExists;
  }
  const bool is_new = entry == 0;
  if (is_new && (entry = leaf_for(group)) == 0) return Insert::kNoMemory;
  for (uint64_t i = 0; i < count; ++i) {
    leaf(entry)[at + i].store(folio, kRelease);
  }
  std::atomic<uint32_t>& taken = metadata_->leaf_count(entry & ~kLeaf);
  taken.store(taken.load(kRelaxed) + static_cast<uint32_t>(count), kRelaxed);
  if (is_new) table_[group].store(entry, kRelease);
  return Insert::kOk;
}

// The entry for a leaf that can be linked at `group`; 0: no memory.
uint32_t FileIndex::leaf_for(uint64_t group) {
  if (!charge(group)) return 0;
  const int64_t number = metadata_->allocate_leaf();
  return number < 0 ? 0 : static_cast<uint32_t>(number) | kLeaf;
}

// Readers may go on using the folio, and the leaf, until their sections end.
void FileIndex::erase(PageIndex first, unsigned order) {
  const uint64_t count = uint64_t{1} << order;
  if (first >= end() || count > end() - first) return;
  if (order < kGroupShift) return erase_from_leaf(first, count);
  for (uint64_t i = 0; i < count >> kGroupShift; ++i) {
    table_[(first >> kGroupShift) + i].store(0, kRelaxed);
  }
}

// The last folio takes the leaf with it: a leaf for a group that is read no
// more would hold on to the budget.
void FileIndex::erase_from_leaf(PageIndex first, uint64_t count) {
  std::atomic<uint32_t>& slot = table_[first >> kGroupShift];
  const uint32_t entry = slot.load(kRelaxed);
  if ((entry & kLeaf) == 0) return;
  std::atomic<uint32_t>* ids = leaf(entry) + (first & (kGroupPages - 1));
  uint32_t erased = 0;
  for (uint64_t i = 0; i < count; ++i) {
    erased += ids[i].load(kRelaxed) != 0;
    ids[i].store(0, kRelaxed);
  }
  std::atomic<uint32_t>& taken = metadata_->leaf_count(entry & ~kLeaf);
  const uint32_t left = taken.load(kRelaxed) - erased;
  taken.store(left, kRelaxed);
  if (left != 0) return;
  slot.store(0, kRelaxed);
  metadata_->retire_leaf(entry & ~kLeaf);
}

// Bounded, unlike lookup(): the scans may look beyond the end of the file.
uint32_t FileIndex::entry_of(PageIndex page) const {
  if (page >= end()) return 0;
  return table_[page >> kGroupShift].load(kAcquire);
}

bool FileIndex::leaf_is_full(uint32_t entry) const {
  return metadata_->leaf_count(entry & ~kLeaf).load(kRelaxed) == kGroupPages;
}

// Taken pages in a row from `page` to the end of its group: 0 is a hole.
uint64_t FileIndex::taken_from(PageIndex page) const {
  const uint32_t entry = entry_of(page);
  if (entry == 0) return 0;
  const uint64_t at = page & (kGroupPages - 1);
  if ((entry & kLeaf) == 0 || leaf_is_full(entry)) return kGroupPages - at;
  uint64_t i = at;
  while (i < kGroupPages && leaf(entry)[i].load(kRelaxed) != 0) ++i;
  return i - at;
}

// The same downwards, to the beginning of its group.
uint64_t FileIndex::taken_down_from(PageIndex page) const {
  const uint32_t entry = entry_of(page);
  if (entry == 0) return 0;
  const uint64_t at = page & (kGroupPages - 1);
  if ((entry & kLeaf) == 0 || leaf_is_full(entry)) return at + 1;
  uint64_t i = at + 1;
  while (i > 0 && leaf(entry)[i - 1].load(kRelaxed) != 0) --i;
  return at + 1 - i;
}

PageIndex FileIndex::next_hole(PageIndex from, uint64_t max_scan) const {
  for (uint64_t seen = 0; seen < max_scan;) {
    const uint64_t taken = taken_from(from + seen);
    if (taken == 0) return from + seen;
    seen += taken;
  }
  return from + max_scan;
}

// The scan's three ends, as the kernel has them: a hole, page 0 passed, or
// max_scan pages examined, whose last is then the answer.
PageIndex FileIndex::previous_hole(PageIndex from, uint64_t max_scan) const {
  PageIndex page = from;
  for (uint64_t left = max_scan; left != 0;) {
    const uint64_t taken = taken_down_from(page);
    if (taken == 0) return page;
    if (taken >= left) return page - left + 1;
    if (taken == page + 1) return ~PageIndex{0};  // page 0 was taken too
    left -= taken;
    page -= taken;
  }
  return from;
}

// The first page >= page of its group that has a folio, or the group's end.
PageIndex FileIndex::present_in(uint32_t entry, PageIndex page) const {
  const PageIndex end_of_group = round_down(page, kGroupPages) + kGroupPages;
  if (entry == 0) return end_of_group;
  if ((entry & kLeaf) == 0) return page;
  while (page < end_of_group &&
         leaf(entry)[page & (kGroupPages - 1)].load(kRelaxed) == 0) {
    ++page;
  }
  return page;
}

// Empty stretches of a large file's table, never written to, are stepped over
// by the page.
PageIndex FileIndex::next_present(PageIndex from, PageIndex limit) const {
  const PageIndex bound = limit < end() ? limit : end();
  PageIndex page = from;
  while (page < bound) {
    const uint64_t group = page >> kGroupShift;
    const uint64_t charged = next_group(group);
    if (charged != group) {
      page = charged << kGroupShift;
      continue;
    }
    const PageIndex found = present_in(table_[group].load(kRelaxed), page);
    if (found >> kGroupShift == group) return found < limit ? found : limit;
    page = found;
  }
  return limit;
}

}  // namespace racache
