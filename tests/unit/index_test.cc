// SPDX-License-Identifier: MIT
// The index decides which memory a read is served from, and what readahead
// takes for absent. So every operation is compared with a plain map, at random,
// in files small and large, with folios of every order.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "core/index.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <map>
#include <vector>

#include "core/metadata.h"
#include "tests/unit/seed.h"

using namespace racache;
using Insert = FileIndex::Insert;

namespace {

constexpr uint64_t kSmallFile = 3000;
constexpr uint64_t kLargeFile = uint64_t{40} << 20;  // 160 GiB: a large table
constexpr PageIndex kNone = ~PageIndex{0};

class Fixture {
 public:
  explicit Fixture(uint64_t file_pages = kSmallFile, size_t budget = 4 << 20) {
    REQUIRE(epoch::init());
    REQUIRE(metadata.init(budget));
    REQUIRE(index.init(file_pages, metadata));
  }
  ~Fixture() {
    index.destroy();
    CHECK(metadata.used() == 0);
    metadata.destroy();
  }

  Metadata metadata;
  FileIndex index;
};

// The specification, page by page.
class Model {
 public:
  struct Entry {
    unsigned order;
    FolioId id;
  };
  // The folio that covers the page, as an iterator; end() for a hole.
  auto find(PageIndex page) const {
    auto it = folios_.upper_bound(page);
    if (it == folios_.begin()) return folios_.end();
    --it;
    const bool covers = page - it->first < uint64_t{1} << it->second.order;
    return covers ? it : folios_.end();
  }
  FolioId lookup(PageIndex page) const {
    const auto it = find(page);
    return it == folios_.end() ? kNoFolio : it->second.id;
  }
  bool any(PageIndex first, unsigned order) const {
    for (uint64_t i = 0; i < uint64_t{1} << order; ++i) {
      if (lookup(first + i) != kNoFolio) return true;
    }
    return false;
  }
  PageIndex next_hole(PageIndex from, uint64_t max_scan) const {
    for (uint64_t i = 0; i < max_scan; ++i) {
      if (lookup(from + i) == kNoFolio) return from + i;
    }
    return from + max_scan;
  }
  PageIndex next_present(PageIndex from, PageIndex limit) const {
    if (from >= limit) return limit;
    if (lookup(from) != kNoFolio) return from;
    const auto it = folios_.lower_bound(from);
    return it == folios_.end() || it->first > limit ? limit : it->first;
  }
  PageIndex previous_hole(PageIndex from, uint64_t max_scan) const {
    PageIndex last = from;
    PageIndex page = from;
    for (uint64_t i = 0; i < max_scan; ++i) {
      if (page == kNone || lookup(page) == kNoFolio) return page;
      last = page--;
    }
    return last;
  }
  std::map<PageIndex, Entry>& folios() { return folios_; }

 private:
  std::map<PageIndex, Entry> folios_;
};

void compare_queries(const FileIndex& index, const Model& model, Random& random,
                     PageIndex near, uint64_t file_pages) {
  const PageIndex page = near % file_pages;
  REQUIRE(index.lookup(page) == model.lookup(page));
  const uint64_t scan = random.below(random.one_in(3) ? 2000 : 100);
  REQUIRE(index.next_hole(page, scan) == model.next_hole(page, scan));
  REQUIRE(index.previous_hole(page, scan) == model.previous_hole(page, scan));
  const PageIndex limit = page + random.below(random.one_in(3) ? 1 << 26 : 300);
  REQUIRE(index.next_present(page, limit) == model.next_present(page, limit));
}

// `spread`: how many pages around each of a few places are used.
void run_random(uint64_t file_pages, uint64_t places, uint64_t spread,
                int steps) {
  Fixture f(file_pages);
  Random random;
  Model model;
  FolioId next_id = 1;
  for (int step = 0; step < steps; ++step) {
    const PageIndex place = file_pages / places * random.below(places);
    const PageIndex page = (place + random.below(spread)) % file_pages;
    const bool filling_up = step / 3000 % 2 == 0;
    if (random.below(10) < (filling_up ? 7 : 3)) {
      const unsigned order = static_cast<unsigned>(
          random.one_in(10) ? random.below(10) : random.below(5));
      const PageIndex first = round_down(page, uint64_t{1} << order);
      if (first + (uint64_t{1} << order) > file_pages) continue;
      const Insert result = f.index.insert(first, order, next_id);
      REQUIRE(result ==
              (model.any(first, order) ? Insert::kExists : Insert::kOk));
      if (result == Insert::kOk) model.folios()[first] = {order, next_id++};
    } else if (const auto it = model.find(page); it != model.folios().end()) {
      f.index.erase(it->first, it->second.order);
      model.folios().erase(it);
    }
    compare_queries(f.index, model, random, page + random.below(100),
                    file_pages);
  }
  for (const auto& [first, entry] : model.folios()) {
    for (uint64_t i = 0; i < uint64_t{1} << entry.order; ++i) {
      REQUIRE(f.index.lookup(first + i) == entry.id);
    }
    f.index.erase(first, entry.order);
  }
  REQUIRE(f.index.next_present(0, file_pages) == file_pages);
}

}  // namespace

TEST_CASE("random use of a small file") {
  run_random(kSmallFile, 1, 3000, 40000);
}

TEST_CASE("random use of a file of a few pages") {
  run_random(37, 1, 37, 5000);
}

TEST_CASE("random use of places in a large file") {
  run_random(kLargeFile, 40, 700, 40000);
}

TEST_CASE("every order at its natural place") {
  Fixture f;
  for (unsigned order = 0; order <= kMaxOrder; ++order) {
    const PageIndex first = uint64_t{1} << (order + 1);
    REQUIRE(f.index.insert(first, order, order + 100) == Insert::kOk);
    CHECK(f.index.lookup(first - 1) == kNoFolio);
    CHECK(f.index.lookup(first) == order + 100);
    CHECK(f.index.lookup(first + (uint64_t{1} << order) - 1) == order + 100);
    CHECK(f.index.lookup(first + (uint64_t{1} << order)) == kNoFolio);
    CHECK(f.index.insert(first, order, 5) == Insert::kExists);
    CHECK(f.index.insert(first, 0, 5) == Insert::kExists);
    CHECK(f.index.insert(0, kMaxOrder, 5) ==
          (first < kBlockPages ? Insert::kExists : Insert::kOk));
    f.index.erase(first, order);
    if (first >= kBlockPages) f.index.erase(0, kMaxOrder);
  }
}

TEST_CASE("a collision changes nothing") {
  Fixture f;
  REQUIRE(f.index.insert(15, 0, 1) == Insert::kOk);
  REQUIRE(f.index.insert(511, 0, 2) == Insert::kOk);
  CHECK(f.index.insert(0, 4, 3) == Insert::kExists);
  CHECK(f.index.insert(0, 9, 3) == Insert::kExists);
  CHECK(f.index.next_present(0, kSmallFile) == 15);
  CHECK(f.index.next_present(16, kSmallFile) == 511);
  CHECK(f.index.next_present(512, kSmallFile) == kSmallFile);
}

TEST_CASE("a large folio goes where small ones were") {
  Fixture f;
  for (PageIndex page = 0; page < 128; ++page) {
    REQUIRE(f.index.insert(page, 0, static_cast<FolioId>(page + 1)) ==
            Insert::kOk);
  }
  for (PageIndex page = 0; page < 128; ++page) f.index.erase(page, 0);
  CHECK(f.index.insert(0, 7, 999) == Insert::kOk);
  CHECK(f.index.lookup(127) == 999);
  f.index.erase(0, 7);
  CHECK(f.index.insert(64, 0, 5) == Insert::kOk);
  CHECK(f.index.lookup(64) == 5);
  CHECK(f.index.lookup(0) == kNoFolio);
}

TEST_CASE("one hole in a full group is found from both sides") {
  Fixture f;
  for (PageIndex page = 0; page < 192; ++page) {
    REQUIRE(f.index.insert(page, 0, 1) == Insert::kOk);
  }
  CHECK(f.index.next_hole(0, 1000) == 192);
  for (PageIndex hole = 64; hole < 128; ++hole) {
    f.index.erase(hole, 0);
    REQUIRE(f.index.next_hole(0, 1000) == hole);
    REQUIRE(f.index.previous_hole(191, 1000) == hole);
    REQUIRE(f.index.insert(hole, 0, 1) == Insert::kOk);
  }
}

TEST_CASE("beyond the file's last group there is nothing, and no room") {
  Fixture f(65);
  CHECK(f.index.insert(128, 0, 1) == Insert::kNoMemory);
  CHECK(f.index.insert(0, 9, 1) == Insert::kNoMemory);
  CHECK(f.index.insert(0, 7, 1) == Insert::kOk);
  CHECK(f.index.next_hole(0, 1000) == 128);
  CHECK(f.index.next_hole(5000, 10) == 5000);
  CHECK(f.index.next_present(128, 5000) == 5000);
  CHECK(f.index.previous_hole(128, 10) == 128);
  CHECK(f.index.previous_hole(kNone, 10) == kNone);
  f.index.erase(4096, 0);
  f.index.erase(0, 9);
  CHECK(f.index.lookup(64) == 1);
}

TEST_CASE("previous_hole at the front of the file") {
  Fixture f;
  REQUIRE(f.index.insert(0, 6, 1) == Insert::kOk);
  REQUIRE(f.index.insert(64, 5, 2) == Insert::kOk);
  CHECK(f.index.previous_hole(95, 1) == 95);
  CHECK(f.index.previous_hole(95, 95) == 1);
  CHECK(f.index.previous_hole(95, 96) == 0);  // page 0 is the last examined
  CHECK(f.index.previous_hole(95, 97) == kNone);
  CHECK(f.index.previous_hole(96, 97) == 96);
  CHECK(f.index.previous_hole(95, 0) == 95);
  f.index.erase(0, 6);
  CHECK(f.index.previous_hole(95, 97) == 63);
}

TEST_CASE("no leaf to be had: kNoMemory, and large folios still go in") {
  Fixture f(kLargeFile, 256 << 10);
  PageIndex page = 0;
  Insert result;
  while ((result = f.index.insert(page, 0, 7)) == Insert::kOk) page += 64;
  CHECK(result == Insert::kNoMemory);
  CHECK(page > 64 * 500);
  CHECK(f.metadata.touched() <= f.metadata.limit());
  CHECK(f.index.lookup(page) == kNoFolio);
  CHECK(f.index.insert(page, 6, 8) == Insert::kOk);
  // The leaf of an erased folio serves the next.
  f.index.erase(0, 0);
  CHECK(f.index.insert(page + 64, 0, 9) == Insert::kOk);
  CHECK(f.index.lookup(page + 64) == 9);
}

TEST_CASE("the table's budget is a limit, too") {
  Fixture f(kLargeFile, 128 << 10);
  PageIndex page = 0;
  while (f.index.insert(page, 9, 7) == Insert::kOk) page += 1 << 16;
  CHECK(page > 0);
  CHECK(page < kLargeFile / 10);  // it was not the file that ended
  CHECK(f.metadata.touched() <= f.metadata.limit());
  CHECK(f.metadata.touched() > f.metadata.limit() - 2 * kPageSize);
  CHECK(f.index.lookup(page) == kNoFolio);
}

TEST_CASE("a file whose table does not fit is ENOMEM") {
  Metadata metadata;
  REQUIRE(metadata.init(64 << 10));
  FileIndex index;
  std::vector<void*> tables;
  while (void* table = metadata.allocate_table(1024)) tables.push_back(table);
  const Expected<void> made = index.init(64 * 256, metadata);
  REQUIRE_FALSE(made);
  CHECK(static_cast<int>(made.error()) == ENOMEM);
  index.destroy();  // of one that never was
  for (void* table : tables) metadata.free_table(table, 1024);
  CHECK(index.init(64 * 256, metadata));
  index.destroy();
  metadata.destroy();
}

TEST_CASE("a reader in an unlinked leaf sees no other folio appear in it") {
  Fixture f(kLargeFile, 64 << 10);
  REQUIRE(f.index.insert(3, 0, 1) == Insert::kOk);
  ThreadSlot& slot = *epoch::self();
  const bool opened = epoch::enter(slot);
  f.index.erase(3, 0);
  // All other leaves go; the one we may be in does not.
  PageIndex page = 64;
  for (; f.index.insert(page + 3, 0, 2) == Insert::kOk; page += 64) {
  }
  for (uint32_t leaf = 0; leaf < 2; ++leaf) {
    const uint32_t id = f.metadata.leaves()[leaf * 64 + 3].load();
    CHECK(id == (leaf == 0 ? 0 : 2));
  }
  epoch::leave(slot, opened);
  CHECK(f.index.insert(page + 3, 0, 3) == Insert::kOk);
  CHECK(f.metadata.leaves()[3].load() == 3);
}

TEST_CASE("destroy gives back the leaves of a file that was not emptied") {
  Fixture f(kLargeFile);
  for (int i = 0; i < 200; ++i) {
    REQUIRE(f.index.insert(i * 131072, 0, 1) == Insert::kOk);
    REQUIRE(f.index.insert(i * 131072 + 512, 9, 1) == Insert::kOk);
  }
  // The fixture checks that nothing stays in use.
}
