// SPDX-License-Identifier: MIT
#include "core/ghosts.h"

#include "core/mapping.h"

namespace racache {
namespace {

constexpr unsigned kGroupOrder = 4;  // 64 KiB
constexpr uint64_t kGroupPages = uint64_t{1} << kGroupOrder;

uint16_t load(const uint16_t& slot) {
  return __atomic_load_n(&slot, __ATOMIC_RELAXED);
}
void store(uint16_t& slot, uint16_t value) {
  __atomic_store_n(&slot, value, __ATOMIC_RELAXED);
}

// Of a page (kind 0) or of a group of pages (kind 1).
uint64_t key_of(uint64_t file, uint64_t number, unsigned kind) {
  uint64_t h = (file ^ (number * 2 + kind)) * 0x9e3779b97f4a7c15u;
  h ^= h >> 32;
  return h * 0xd6e8feb86659fd93u;
}

// The low bits; the bucket is chosen by the high ones. 0 is an empty slot.
uint16_t print_of(uint64_t key) {
  const uint16_t print = static_cast<uint16_t>(key >> 8);
  return print != 0 ? print : 1;
}

}  // namespace

bool Ghosts::init(uint64_t frames) {
  const uint64_t buckets = frames / kSlots;
  void* memory = mapping::reserve(buckets * kBucketBytes, MADV_DONTFORK);
  if (memory == nullptr) return false;
  slots_ = static_cast<uint16_t*>(memory);
  buckets_ = buckets;
  return true;
}

void Ghosts::destroy() {
  if (slots_ != nullptr) mapping::release(slots_, bytes());
  slots_ = nullptr;
  buckets_ = 0;
}

uint16_t* Ghosts::bucket_of(uint64_t key) const {
  const uint64_t bucket = ((key >> 32) * buckets_) >> 32;
  return slots_ + bucket * kSlots;
}

void Ghosts::push(uint64_t key) {
  uint16_t* bucket = bucket_of(key);
  for (unsigned i = kSlots - 1; i > 0; --i) {
    store(bucket[i], load(bucket[i - 1]));
  }
  store(bucket[0], print_of(key));
}

bool Ghosts::find(uint64_t key, bool forget) {
  uint16_t* bucket = bucket_of(key);
  const uint16_t print = print_of(key);
  for (unsigned i = 0; i < kSlots; ++i) {
    if (load(bucket[i]) != print) continue;
    if (forget) store(bucket[i], 0);
    return true;
  }
  return false;
}

void Ghosts::add(uint64_t file, PageIndex first, unsigned order) {
  if (buckets_ == 0) return;
  const PageIndex end = first + (uint64_t{1} << order);
  if (order < kGroupOrder) {
    for (PageIndex page = first; page < end; ++page) {
      push(key_of(file, page, 0));
    }
    return;
  }
  for (PageIndex page = first; page < end; page += kGroupPages) {
    push(key_of(file, page >> kGroupOrder, 1));
  }
}

// A group's ghost stays: its other pages may follow one by one.
bool Ghosts::find_page(uint64_t file, PageIndex page) {
  return find(key_of(file, page, 0), true) ||
         find(key_of(file, page >> kGroupOrder, 1), false);
}

bool Ghosts::take(uint64_t file, PageIndex first, unsigned order) {
  if (buckets_ == 0) return false;
  const PageIndex end = first + (uint64_t{1} << order);
  unsigned found = 0;
  if (order < kGroupOrder) {
    for (PageIndex page = first; page < end; ++page) {
      found += find_page(file, page) ? 1 : 0;
    }
    return found * 2 >= 1u << order;
  }
  for (PageIndex page = first; page < end; page += kGroupPages) {
    found += find(key_of(file, page >> kGroupOrder, 1), true) ? 1 : 0;
  }
  return found * 2 >= 1u << (order - kGroupOrder);
}

}  // namespace racache
