// SPDX-License-Identifier: MIT
// Everything is counted in pages as they are touched for the first time.
//
// Retired leaves collect in `retiring_`; a batch is stamped as a whole and
// waits in `retired_`, so a grace period (a membarrier) is asked for once a
// batch, or when nothing else is left.
#include "core/metadata.h"

#include <cerrno>
#include <cstring>

#include "core/mapping.h"

namespace racache {
namespace {

constexpr size_t kLeafSize = Metadata::kLeafIds * sizeof(uint32_t);
constexpr size_t kLeafCost = kLeafSize + 8;  // with its LeafInfo
constexpr size_t kLeastBudget = 16 * kPageSize;
constexpr size_t kMaxLeaves = size_t{1} << 30;  // bit 31 of an entry is taken
constexpr size_t kLargeTable = 64 << 10;
constexpr size_t kLeastTable = 64;
constexpr uint32_t kBatch = 64;  // leaves to a grace period

// Powers of two: a table is small beside the file it describes, and few classes
// mean that what one file gives back fits the next.
unsigned class_of(size_t bytes) {
  if (bytes <= kLeastTable) return 0;
  return floor_log2(bytes - 1) + 1 - floor_log2(kLeastTable);
}
size_t class_size(unsigned size_class) { return kLeastTable << size_class; }

// A large table is followed, in its mapping, by a bitmap of its charged pages.
struct LargeTable {
  size_t pages;
  size_t words;

  explicit LargeTable(size_t bytes)
      : pages(pages_of(bytes)), words((pages + 63) / 64) {}
  size_t bitmap_size() const {
    return round_up(words * sizeof(uint64_t), kPageSize);
  }
  size_t mapping_size() const { return (pages << kPageShift) + bitmap_size(); }
  uint64_t* bitmap(void* table) const {
    return reinterpret_cast<uint64_t*>(static_cast<char*>(table) +
                                       (pages << kPageShift));
  }
  const uint64_t* bitmap(const void* table) const {
    return bitmap(const_cast<void*>(table));
  }
  size_t charged(const void* table) const {
    size_t bits = 0;
    for (size_t i = 0; i < words; ++i) {
      bits += static_cast<size_t>(__builtin_popcountll(bitmap(table)[i]));
    }
    return (bits << kPageShift) + bitmap_size();
  }
};

}  // namespace

bool Metadata::reserve(Region& region, size_t bytes) {
  void* memory = mapping::reserve(bytes, MADV_DONTFORK);
  if (memory == nullptr) return false;
  // A huge page would touch more than is counted.
  mapping::advise(memory, bytes, MADV_NOHUGEPAGE);
  region = {static_cast<std::byte*>(memory), bytes, 0};
  return true;
}

void Metadata::release(Region& region) {
  if (region.base != nullptr) mapping::release(region.base, region.size);
  region = {};
}

// Reserves all there may ever be; only what is touched costs memory.
Expected<void> Metadata::init(size_t bytes) {
  const size_t limit = round_down(bytes, kPageSize);
  if (limit < kLeastBudget) return tl::unexpected(Errno{ENOMEM});
  size_t leaves = limit / 4 * 3 / kLeafCost;
  if (leaves > kMaxLeaves) leaves = kMaxLeaves;
  if (!reserve(leaf_region_, leaves * kLeafSize) ||
      !reserve(info_region_, leaves * sizeof(LeafInfo)) ||
      !reserve(table_region_, limit)) {
    destroy();
    return tl::unexpected(Errno{ENOMEM});
  }
  leaves_ = reinterpret_cast<std::atomic<uint32_t>*>(leaf_region_.base);
  infos_ = reinterpret_cast<LeafInfo*>(info_region_.base);
  limit_ = limit;
  return {};
}

void Metadata::destroy() {
  release(leaf_region_);
  release(info_region_);
  release(table_region_);
  leaves_ = nullptr;
  infos_ = nullptr;
  limit_ = 0;
  used_.store(0, kRelaxed);
  touched_.store(0, kRelaxed);
  free_leaves_ = retiring_ = retired_ = {};
  for (void*& list : free_tables_) list = nullptr;
}

// Never gives back but for large tables: what was touched stays the process's,
// whether it is in use or on a free list.
bool Metadata::charge(size_t bytes) {
  if (fault::point()) return false;
  const size_t touched = touched_.load(kRelaxed);
  if (bytes > limit_ - touched) return false;
  touched_.store(touched + bytes, kRelaxed);
  return true;
}

void Metadata::count_used(size_t bytes) {
  used_.store(used_.load(kRelaxed) + bytes, kRelaxed);
}

// Of large tables, whose memory alone goes back to the kernel.
bool Metadata::charge_large(size_t bytes) {
  LockGuard guard(lock_);
  if (!charge(bytes)) return false;
  count_used(bytes);
  return true;
}

void Metadata::uncharge_large(size_t bytes) {
  LockGuard guard(lock_);
  touched_.store(touched_.load(kRelaxed) - bytes, kRelaxed);
  count_used(0 - bytes);
}

// Makes the next `bytes` of the region usable.
bool Metadata::grow(Region& region, size_t bytes) {
  if (bytes > region.size - region.used) return false;
  const size_t before = round_up(region.used, kPageSize);
  const size_t after = round_up(region.used + bytes, kPageSize);
  if (!charge(after - before)) return false;
  region.used += bytes;
  return true;
}

// A leaf and its LeafInfo lie in regions of their own: 64 ids fill four cache
// lines exactly.
bool Metadata::grow_leaves() {
  if (!grow(leaf_region_, kLeafSize)) return false;
  if (!grow(info_region_, sizeof(LeafInfo))) {
    leaf_region_.used -= kLeafSize;  // what was charged for it stays charged
    return false;
  }
  append(free_leaves_,
         static_cast<uint32_t>(leaf_region_.used / kLeafSize - 1));
  return true;
}

void Metadata::append(LeafList& list, uint32_t leaf) {
  infos_[leaf].next = 0;
  (list.head == 0 ? list.head : infos_[list.tail - 1].next) = leaf + 1;
  list.tail = leaf + 1;
  ++list.count;
}

// One step: the waiting batch becomes free if no section can see it any more,
// and the collected one takes its place.
void Metadata::reclaim_leaves() {
  if (retired_.count != 0) {
    if (!epoch::passed(stamp_)) return;
    const LeafList old = free_leaves_;
    free_leaves_ = retired_;
    infos_[retired_.tail - 1].next = old.head;
    if (old.head != 0) free_leaves_.tail = old.tail;
    free_leaves_.count += old.count;
    retired_ = {};
  }
  if (retiring_.count == 0) return;
  retired_ = retiring_;
  retiring_ = {};
  stamp_ = epoch::retire();
}

// Fresh leaves before a grace period: the budget is there to be used, and a
// membarrier interrupts every running thread.
int64_t Metadata::allocate_leaf() {
  if (fault::point()) return -ENOMEM;
  LockGuard guard(lock_);
  if (free_leaves_.count == 0 && !grow_leaves()) {
    reclaim_leaves();
    if (free_leaves_.count == 0) reclaim_leaves();
    if (free_leaves_.count == 0) return -ENOMEM;
  }
  const uint32_t leaf = free_leaves_.head - 1;
  free_leaves_.head = infos_[leaf].next;
  --free_leaves_.count;
  infos_[leaf].count.store(0, kRelaxed);
  count_used(kLeafCost);
  return leaf;
}

// A reader that is still in the leaf finds the ids it had or none.
void Metadata::retire_leaf(uint32_t leaf) {
  LockGuard guard(lock_);
  for (uint64_t i = 0; i < kLeafIds; ++i) {
    std::atomic<uint32_t>& id = leaves_[leaf * kLeafIds + i];
    if (id.load(kRelaxed) != 0) id.store(0, kRelaxed);
  }
  infos_[leaf].count.store(0, kRelaxed);
  append(retiring_, leaf);
  count_used(0 - kLeafCost);
  if (retiring_.count % kBatch == 0) reclaim_leaves();
}

void* Metadata::small_table(size_t bytes) {
  const unsigned size_class = class_of(bytes);
  LockGuard guard(lock_);
  void*& list = free_tables_[size_class];
  const size_t size = class_size(size_class);
  void* table = list;
  if (table != nullptr) {
    std::memcpy(&list, table, sizeof list);
    std::memset(table, 0, size);
  } else {
    if (!grow(table_region_, size)) return nullptr;
    table = table_region_.base + table_region_.used - size;
  }
  count_used(size);
  return table;
}

// The mapping is made and unmade without the lock: the kernel may have to wait
// for a page fault of another thread.
void* Metadata::large_table(size_t bytes) {
  const LargeTable layout(bytes);
  if (!charge_large(layout.bitmap_size())) return nullptr;
  void* table = mapping::reserve(layout.mapping_size(), MADV_DONTFORK);
  if (table == nullptr) {
    uncharge_large(layout.bitmap_size());
    return nullptr;
  }
  mapping::advise(table, layout.mapping_size(), MADV_NOHUGEPAGE);
  return table;
}

void Metadata::advise(int advice) const {
  for (const Region* region : {&leaf_region_, &info_region_, &table_region_}) {
    mapping::advise(region->base, region->size, advice);
  }
}

void Metadata::advise_table(void* table, size_t bytes, int advice) const {
  if (bytes < kLargeTable) return;
  mapping::advise(table, LargeTable(bytes).mapping_size(), advice);
}

void* Metadata::allocate_table(size_t bytes) {
  return bytes >= kLargeTable ? large_table(bytes) : small_table(bytes);
}

void Metadata::free_table(void* table, size_t bytes) {
  if (bytes >= kLargeTable) {
    const LargeTable layout(bytes);
    uncharge_large(layout.charged(table));
    mapping::release(table, layout.mapping_size());
    return;
  }
  const unsigned size_class = class_of(bytes);
  LockGuard guard(lock_);
  std::memcpy(table, &free_tables_[size_class], sizeof(void*));
  free_tables_[size_class] = table;
  count_used(0 - class_size(size_class));
}

// The bitmap needs no lock: a table has one writer, who holds its file's lock.
bool Metadata::charge_table(void* table, size_t bytes, size_t offset) {
  if (bytes < kLargeTable) return true;
  const size_t page = offset >> kPageShift;
  uint64_t& word = LargeTable(bytes).bitmap(table)[page / 64];
  const uint64_t bit = uint64_t{1} << (page % 64);
  if ((word & bit) == 0 && !charge_large(kPageSize)) return false;
  word |= bit;
  return true;
}

size_t Metadata::next_charged(const void* table, size_t bytes,
                              size_t offset) const {
  if (bytes < kLargeTable) return offset < bytes ? offset : bytes;
  const LargeTable layout(bytes);
  const uint64_t* bitmap = layout.bitmap(table);
  for (size_t page = offset >> kPageShift; page < layout.pages;) {
    const uint64_t rest = bitmap[page / 64] >> (page % 64);
    if (rest != 0) {
      const size_t at = (page + trailing_zeros(rest)) << kPageShift;
      return at > offset ? at : offset;
    }
    page = round_down(page, 64) + 64;
  }
  return bytes;
}

}  // namespace racache
