// SPDX-License-Identifier: MIT
// What was evicted a short while ago: fingerprints, nothing else.
//
// 16 bits each, in buckets of one cache line that are queues of 32: a new
// one pushes the oldest out. Two bytes for each page frame (0.05 % of the
// memory they speak of) remember about as much as the cache holds. One in 2000
// look-ups takes a stranger for a ghost, which costs nothing but a place.
//
// A folio below 64 KiB leaves a ghost for each page, a larger one for each
// 64 KiB, so that what comes back in other orders is known again.
//
// Thread safety: any thread may call anything after init(); the entries are
// relaxed atomics, and two that race may lose a ghost.
#pragma once

#include "core/base.h"

namespace racache {

class Ghosts {
 public:
  // For a cache of `frames` pages. False: no memory; nothing is remembered.
  bool init(uint64_t frames);
  void destroy();

  // A folio of the file with this identity was evicted.
  void add(uint64_t file, PageIndex first, unsigned order);
  // Whether at least half of a folio that comes in was evicted lately. It is
  // forgotten by that.
  [[nodiscard]] bool take(uint64_t file, PageIndex first, unsigned order);

  size_t bytes() const { return buckets_ * kBucketBytes; }

 private:
  static constexpr unsigned kSlots = 32;
  static constexpr size_t kBucketBytes = kSlots * sizeof(uint16_t);

  uint16_t* bucket_of(uint64_t key) const;
  void push(uint64_t key);
  bool find(uint64_t key, bool forget);
  bool find_page(uint64_t file, PageIndex page);

  uint16_t* slots_ = nullptr;
  uint64_t buckets_ = 0;
};

}  // namespace racache
