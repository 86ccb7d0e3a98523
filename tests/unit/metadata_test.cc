// SPDX-License-Identifier: MIT
// The budget must be a hard limit whatever the order of requests, and a leaf
// that a reader may still be in must not be handed out again. A table that is
// not zero would make the index find folios that are not there.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "core/metadata.h"

#include <doctest/doctest.h>

#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "tests/unit/seed.h"

using namespace racache;

namespace {

constexpr size_t kBudget = 1 << 20;

class Fixture {
 public:
  explicit Fixture(size_t budget = kBudget) {
    REQUIRE(epoch::init());
    REQUIRE(metadata.init(budget));
  }
  ~Fixture() { metadata.destroy(); }

  std::vector<uint32_t> take_all_leaves() {
    std::vector<uint32_t> leaves;
    for (int64_t leaf; (leaf = metadata.allocate_leaf()) >= 0;) {
      leaves.push_back(static_cast<uint32_t>(leaf));
    }
    return leaves;
  }
  std::atomic<uint32_t>* ids(uint32_t leaf) const {
    return metadata.leaves() + leaf * Metadata::kLeafIds;
  }
  bool is_zero(uint32_t leaf) const {
    for (uint64_t i = 0; i < Metadata::kLeafIds; ++i) {
      if (ids(leaf)[i].load() != 0) return false;
    }
    return true;
  }

  Metadata metadata;
};

bool is_zero(const void* memory, size_t bytes) {
  const char* at = static_cast<const char*>(memory);
  for (size_t i = 0; i < bytes; ++i) {
    if (at[i] != 0) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("with what others take it is 1 % of the cache, but never nothing") {
  CHECK(Metadata::budget(uint64_t{1} << 30, 5 << 20) ==
        (uint64_t{1} << 30) / 100 - (5 << 20));
  CHECK(Metadata::budget(8 << 20, 40 << 10) == 256 << 10);
  CHECK(Metadata::budget(1 << 30, uint64_t{1} << 30) == 256 << 10);
}

TEST_CASE("too small a budget is ENOMEM") {
  Metadata metadata;
  CHECK_FALSE(metadata.init(4096));
  CHECK(metadata.limit() == 0);
  CHECK(metadata.init(kBudget));
  CHECK(metadata.limit() == kBudget);
  CHECK(metadata.used() == 0);
  CHECK(metadata.touched() == 0);
  metadata.destroy();
}

TEST_CASE("leaves are distinct, zero, and end before the budget does") {
  Fixture f;
  const std::vector<uint32_t> leaves = f.take_all_leaves();
  CHECK(leaves.size() > kBudget / 2 / 256);
  CHECK(std::set(leaves.begin(), leaves.end()).size() == leaves.size());
  for (const uint32_t leaf : leaves) {
    REQUIRE(f.is_zero(leaf));
    f.ids(leaf)[63].store(1);
  }
  CHECK(f.metadata.touched() <= kBudget / 4 * 3 + 2 * kPageSize);
  CHECK(f.metadata.allocate_leaf() < 0);
  // A file can be adopted all the same.
  CHECK(f.metadata.allocate_table(kBudget / 8) != nullptr);
}

TEST_CASE("a retired leaf is not handed out within a grace period") {
  Fixture f;
  const std::vector<uint32_t> leaves = f.take_all_leaves();
  ThreadSlot& slot = *epoch::self();
  const bool opened = epoch::enter(slot);
  for (const uint32_t leaf : leaves) {
    f.ids(leaf)[5].store(77);
    f.metadata.retire_leaf(leaf);
    REQUIRE(f.is_zero(leaf));
    REQUIRE(f.metadata.allocate_leaf() < 0);
  }
  CHECK(f.metadata.used() == 0);
  epoch::leave(slot, opened);
  // Now all of them can be had, each once.
  const std::vector<uint32_t> again = f.take_all_leaves();
  CHECK(again.size() == leaves.size());
  CHECK(std::set(again.begin(), again.end()).size() == leaves.size());
  for (const uint32_t leaf : again) REQUIRE(f.is_zero(leaf));
}

TEST_CASE("a section that began after the retirement does not delay it") {
  Fixture f;
  const std::vector<uint32_t> leaves = f.take_all_leaves();
  for (const uint32_t leaf : leaves) f.metadata.retire_leaf(leaf);
  CHECK(f.metadata.allocate_leaf() >= 0);
  epoch::Section section(*epoch::self());
  CHECK(f.metadata.allocate_leaf() >= 0);
}

TEST_CASE("batches of retired leaves join those that are free already") {
  Fixture f;
  std::vector<uint32_t> leaves;
  for (int i = 0; i < 300; ++i) {
    leaves.push_back(static_cast<uint32_t>(f.metadata.allocate_leaf()));
  }
  const size_t touched = f.metadata.touched();
  for (const uint32_t leaf : leaves) f.metadata.retire_leaf(leaf);
  // Batches of 64: all but the last two and the rest have become free.
  std::set<uint32_t> again;
  for (int i = 0; i < 3 * 64; ++i) {
    const int64_t leaf = f.metadata.allocate_leaf();
    REQUIRE(leaf >= 0);
    REQUIRE(again.insert(static_cast<uint32_t>(leaf)).second);
  }
  CHECK(f.metadata.touched() == touched);
}

TEST_CASE("tables come back zeroed, in their own size") {
  Fixture f;
  std::set<void*> seen;
  for (const size_t bytes : {4, 64, 65, 1000, 4096, 40000, 65535}) {
    const size_t before = f.metadata.used();
    void* table = f.metadata.allocate_table(bytes);
    REQUIRE(table != nullptr);
    CHECK(f.metadata.used() >= before + bytes);
    CHECK(reinterpret_cast<uintptr_t>(table) % 64 == 0);
    CHECK(seen.insert(table).second);
    CHECK(is_zero(table, bytes));
    std::memset(table, 0xff, bytes);
    f.metadata.free_table(table, bytes);
    CHECK(f.metadata.used() == before);
    void* again = f.metadata.allocate_table(bytes);
    CHECK(again == table);
    CHECK(is_zero(again, bytes));
    std::memset(again, 0xff, bytes);
  }
}

TEST_CASE("a large table costs what is written of it") {
  Fixture f;
  constexpr size_t kTable = 64 << 20;  // far beyond the budget, if it were full
  void* table = f.metadata.allocate_table(kTable);
  REQUIRE(table != nullptr);
  CHECK(f.metadata.used() <= 2 * kPageSize);
  CHECK(f.metadata.next_charged(table, kTable, 0) == kTable);
  const size_t before = f.metadata.used();
  CHECK(f.metadata.charge_table(table, kTable, 5000));
  CHECK(f.metadata.charge_table(table, kTable, 8191));
  CHECK(f.metadata.charge_table(table, kTable, kTable - 1));
  CHECK(f.metadata.used() == before + 2 * kPageSize);
  CHECK(f.metadata.next_charged(table, kTable, 0) == 4096);
  CHECK(f.metadata.next_charged(table, kTable, 6000) == 6000);
  CHECK(f.metadata.next_charged(table, kTable, 8192) == kTable - 4096);
  size_t at = 0;
  while (f.metadata.charge_table(table, kTable, at)) at += kPageSize;
  CHECK(f.metadata.touched() <= kBudget);
  CHECK(f.metadata.touched() > kBudget - 2 * kPageSize);
  CHECK(f.metadata.charge_table(table, kTable, 0));  // it has been paid for
  f.metadata.free_table(table, kTable);
  CHECK(f.metadata.used() == 0);
  CHECK(f.metadata.touched() == 0);
}

TEST_CASE("whatever is asked for, the budget holds and nothing overlaps") {
  Fixture f(256 << 10);
  Random random;
  std::map<char*, size_t> tables;
  std::vector<uint32_t> leaves;
  std::set<uint32_t> held;
  for (int step = 0; step < 20000; ++step) {
    switch (random.below(5)) {
      case 0: {
        const size_t bytes = 1 + random.below(random.one_in(20) ? 300000 : 900);
        void* memory = f.metadata.allocate_table(bytes);
        if (memory == nullptr) break;
        char* table = static_cast<char*>(memory);
        REQUIRE(table[0] == 0);
        REQUIRE(table[bytes - 1] == 0);
        const auto above = tables.lower_bound(table);
        if (above != tables.end()) REQUIRE(table + bytes <= above->first);
        if (above != tables.begin()) {
          const auto below = std::prev(above);
          REQUIRE(below->first + below->second <= table);
        }
        tables[table] = bytes;
        for (const size_t at : {size_t{0}, bytes - 1}) {
          if (f.metadata.charge_table(table, bytes, at)) table[at] = 1;
        }
        break;
      }
      case 1:
        if (!tables.empty()) {
          auto it = tables.begin();
          std::advance(it, random.below(tables.size()));
          f.metadata.free_table(it->first, it->second);
          tables.erase(it);
        }
        break;
      case 2:
        if (!leaves.empty()) {
          std::swap(leaves[random.below(leaves.size())], leaves.back());
          held.erase(leaves.back());
          f.metadata.retire_leaf(leaves.back());
          leaves.pop_back();
        }
        break;
      default: {
        const int64_t leaf = f.metadata.allocate_leaf();
        if (leaf < 0) break;
        REQUIRE(held.insert(static_cast<uint32_t>(leaf)).second);
        REQUIRE(f.is_zero(static_cast<uint32_t>(leaf)));
        f.ids(static_cast<uint32_t>(leaf))[random.below(64)].store(9);
        leaves.push_back(static_cast<uint32_t>(leaf));
      }
    }
    REQUIRE(f.metadata.touched() <= f.metadata.limit());
    REQUIRE(f.metadata.used() <= f.metadata.touched());
  }
  for (const auto& [table, bytes] : tables) f.metadata.free_table(table, bytes);
  for (const uint32_t leaf : leaves) f.metadata.retire_leaf(leaf);
  CHECK(f.metadata.used() == 0);
}
