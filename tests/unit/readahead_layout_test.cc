// SPDX-License-Identifier: MIT
// Which folios and device reads a plan becomes: the layouts of
// kernel-semantics.md 2.7, 3.1 and 7, and what happens when memory runs out or
// a page is taken meanwhile. A folio too large reads what nobody asked for, one
// too small costs the faults and lookups that large folios save.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include "tests/unit/readahead_sim.h"

namespace racache::readahead {
namespace {

constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;
constexpr uint64_t kPage = kPageSize;

using Ranges = std::vector<std::pair<PageIndex, uint64_t>>;
using Orders = std::vector<unsigned>;

SimFile forcing_file(uint64_t size = 64 * kMiB) {
  return SimFile(size, 32, 1024);
}

std::string forced(PageIndex index, uint64_t pages) {
  SimFile file = forcing_file();
  file.force(file.open(), index, pages);
  return layout_text(file);
}

Orders order_counts(const SimFile& file) {
  Orders counts(kOrders);
  for (const auto& entry : file.folios) ++counts[entry.second.order];
  return counts;
}

// Faults of a mapping that touches every page: one for each folio above 64
// KiB, one for each 64 KiB that holds smaller ones.
uint64_t faults(const SimFile& file) {
  uint64_t large = 0;
  std::set<PageIndex> small;
  for (const auto& [index, folio] : file.folios) {
    if (folio.order > 4) {
      ++large;
    } else {
      small.insert(index >> 4);
    }
  }
  return large + small.size();
}

TEST_CASE("forced requests") {
  CHECK(forced(0, 1) == "0:0");
  CHECK(forced(0, 3) == "0:1 2:0");
  CHECK(forced(0, 16) == "0:4");
  CHECK(forced(0, 64) == "0:6");
  CHECK(forced(0, 512) == "0:9");
  CHECK(forced(1, 1) == "1:0");
  CHECK(forced(3, 8) == "3:0 4:2 8:1 10:0");
  CHECK(forced(5, 11) == "5:0 6:1 8:3");
  CHECK(forced(1, 64) == "1:0 2:1 4:2 8:3 16:4 32:5 64:0");
  CHECK(forced(17, 64) == "17:0 18:1 20:2 24:3 32:5 64:4 80:0");
  CHECK(forced(100, 16) == "100:2 104:3 112:2");
  CHECK(forced(192, 256) == "192:6 256:7 384:6");
  CHECK(forced(255, 2) == "255:0 256:0");
  CHECK(forced(256, 256) == "256:8");
  CHECK(forced(511, 513) ==
        "511:0 512:8 768:7 896:6 960:5 992:4 1008:3 1016:2 1020:1 1022:0 "
        "1023:0");
}

TEST_CASE("a chunk ends a device read") {
  SimFile file = forcing_file();
  file.force(file.open(), 511, 513);
  CHECK(file.ranges == Ranges{{511, 512}, {1023, 1}});
}

TEST_CASE("forced request around a cached page, and at the file's end") {
  SimFile file = forcing_file();
  file.put(10, 0);
  file.force(file.open(), 0, 64);
  CHECK(layout_text(file) == "0:3 8:1 10:0 11:0 12:2 16:4 32:5");
  CHECK(file.ranges == Ranges{{0, 10}, {11, 53}});
  CHECK(file.tried.size() == 6);  // nothing was tried in vain

  SimFile end = forcing_file(37 * kPage + 5);
  end.force(end.open(), 0, 512);
  CHECK(layout_text(end) == "0:5 32:2 36:1");
}

TEST_CASE("forced request on a file that is cached already") {
  SimFile file = forcing_file();
  file.put(0, 6);
  file.force(file.open(), 0, 64);
  CHECK(file.tried.empty());
  CHECK(file.ranges.empty());
}

TEST_CASE("order limits of forced requests") {
  SimFile small = forcing_file();
  small.limits.large_forced = false;
  small.force(small.open(), 0, 64);
  CHECK(order_counts(small)[0] == 64);
  SimFile limited = forcing_file();
  limited.limits.max_order = 4;
  limited.force(limited.open(), 0, 64);
  CHECK(layout_text(limited) == "0:4 16:4 32:4 48:4");
}

TEST_CASE("out of memory lowers the order for the rest of the request") {
  SimFile file = forcing_file();
  file.no_memory_from = 6;
  file.force(file.open(), 0, 128);
  CHECK(file.tried == Orders{7, 6, 5, 5, 5, 5});
  CHECK(layout_text(file) == "0:5 32:5 64:5 96:5");
  CHECK(file.ranges == Ranges{{0, 128}});
}

TEST_CASE("no memory for one page stops a chunk") {
  SimFile file = forcing_file();
  file.no_memory_from = 0;
  file.force(file.open(), 0, 128);
  CHECK(file.tried == Orders{7, 6, 5, 4, 3, 2, 1, 0});
  CHECK(file.ranges.empty());
  file.tried.clear();
  file.force(file.open(), 511, 513);  // two chunks: each has its own try
  CHECK(file.tried == Orders{0, 0});
}

// The view shows a hole, but the page is taken when the folio is inserted.
TEST_CASE("a collision lowers the order of one folio only") {
  SimFile file = forcing_file();
  file.hidden = {10};
  file.force(file.open(), 0, 64);
  CHECK(file.tried == Orders{6, 5, 4, 3, 3, 2, 1, 1, 0, 0, 2, 4, 5});
  CHECK(layout_text(file) == "0:3 8:1 11:0 12:2 16:4 32:5");
  CHECK(file.ranges == Ranges{{0, 10}, {11, 53}});
}

TEST_CASE("a collision with two pages in a row") {
  SimFile file = forcing_file();
  file.hidden = {10, 11};
  file.force(file.open(), 0, 64);
  CHECK(layout_text(file) == "0:3 8:1 12:2 16:4 32:5");
  CHECK(file.ranges == Ranges{{0, 10}, {12, 52}});
}

TEST_CASE("a collision makes the layout look again") {
  SimFile file = forcing_file();
  Stream stream = file.open();
  Layout layout(stream, file.limits, file.view(),
                on_force(stream, file.limits, 0, 64, true));
  CHECK(layout.next().order == 6);
  file.put(10, 0);
  layout.failed(Failure::kCollision);
  CHECK(layout.next().order == 3);
}

TEST_CASE("a chunk knows nothing of the failures of the one before") {
  SimFile file = forcing_file();
  Stream stream = file.open();
  Layout layout(stream, file.limits, file.view(),
                on_force(stream, file.limits, 510, 1024, false));
  CHECK(layout.next().order == 1);
  layout.failed(Failure::kCollision);
  CHECK(layout.next().order == 0);
  layout.failed(Failure::kNoMemory);
  const Step step = layout.next();
  CHECK(step.index == 1022);
  CHECK(step.order == 1);
}

// A sequential stream of 64 KiB reads, after its first window (0+32/16).
struct Streaming {
  SimFile file{64 * kMiB, 32, 128};
  Stream stream = file.open();
  Streaming() {
    file.read(stream, 0, 64 * kKiB);
    file.ranges.clear();
    file.tried.clear();
  }
  void go_on() { file.read(stream, 64 * kKiB, 64 * kKiB); }  // (32+32/32)
};

TEST_CASE("an ordered window and its mark") {
  Streaming s;
  s.go_on();
  CHECK(s.file.tried == Orders{2, 2, 2, 2, 2, 2, 2, 2});
  CHECK(s.file.ranges == Ranges{{32, 32}});
  CHECK(s.file.folios.at(32).mark);
  CHECK_FALSE(s.file.folios.at(16).mark);  // consumed
}

TEST_CASE("an ordered window meets a page that was taken meanwhile") {
  Streaming s;
  s.file.hidden = {40};
  s.go_on();
  CHECK(s.file.tried == Orders{2, 2, 2, 3, 2, 1, 0, 0, 1, 2, 4});
  CHECK(s.file.ranges == Ranges{{32, 8}, {41, 23}});
  CHECK(s.file.folios.at(32).mark);
  CHECK(s.stream.order == 2);  // a collision does not reset it
}

TEST_CASE("an ordered window meets a cached page") {
  Streaming s;
  s.file.put(40, 0);
  s.go_on();
  CHECK(s.file.tried == Orders{2, 2, 0, 1, 2, 4});
  CHECK(s.file.ranges == Ranges{{32, 8}, {41, 23}});
}

TEST_CASE("an ordered window that begins with a cached page has no mark") {
  Streaming s;
  s.file.put(32, 0);
  s.go_on();
  CHECK(s.file.ranges == Ranges{{33, 31}});
  for (const auto& entry : s.file.folios) CHECK_FALSE(entry.second.mark);
}

TEST_CASE("an ordered window without memory for its order") {
  Streaming s;
  s.file.no_memory_from = 2;
  s.go_on();
  Orders tried{2, 5, 4, 3, 2};
  tried.insert(tried.end(), 16, 1);
  CHECK(s.file.tried == tried);
  CHECK(s.file.ranges == Ranges{{32, 32}});
  CHECK(s.file.folios.at(32).mark);
}

TEST_CASE("the fallback of a first window marks by what is left") {
  SimFile file(64 * kMiB, 32, 128);
  file.put(8, 0);
  Stream stream = file.open();
  const Plan plan = on_miss(stream, file.limits, file.view(), 0, 16);
  CHECK(window_text(plan) == "0+32/16");
  file.carry_out(stream, plan);
  CHECK(file.ranges == Ranges{{0, 8}, {9, 23}});
  CHECK(file.folios.at(16).order == 4);
  CHECK(file.folios.at(16).mark);
}

TEST_CASE("orders of a 4 KiB reader") {
  SimFile file(64 * kMiB, 32, 128);
  file.limits.half_window = false;
  Stream stream = file.open();
  file.read_on(stream, 0, kPage, 97 * kPage);
  CHECK(layout_text(file) ==
        "0:0 1:0 2:0 3:0 4:2 8:2 12:2 16:3 24:3 32:4 48:4 64:5 96:5 128:5");
}

TEST_CASE("orders of a 1 MiB reader") {
  SimFile file(64 * kMiB, 32, 128);
  Stream stream = file.open();
  file.carry_out(stream, on_miss(stream, file.limits, file.view(), 0, 256));
  CHECK(order_counts(file)[0] == 128);
  CHECK(file.folios.at(64).mark);
  file.read_on(stream, 0, kMiB, 3 * kMiB);
  // Windows of 128 pages, the last of them (768+128).
  CHECK(order_counts(file) == Orders{128, 0, 32, 0, 8, 0, 2, 3, 0, 0});
  CHECK(file.folios.at(128).order == 2);
  CHECK(file.folios.at(256).order == 4);
  CHECK(file.folios.at(384).order == 6);
  CHECK(file.folios.at(512).order == 7);
}

TEST_CASE("orders of a whole file") {
  SimFile file(kGiB, 2048, 1024);
  Stream stream = file.open();
  file.read_on(stream, 0, kMiB);
  CHECK(order_counts(file) == Orders{512, 0, 256, 0, 128, 0, 32, 0, 8, 497});
  CHECK(file.folios.size() == 1433);
  CHECK(faults(file) == 761);
}

// Folios and faults of a file after `fill`, without and with seed 000.
template <class Fill>
std::vector<uint64_t> folios_and_faults(uint64_t size, Fill fill) {
  std::vector<uint64_t> counts;
  for (const bool large : {false, true}) {
    SimFile file(size, 2048, 1024);
    file.limits.large_forced = large;
    Stream stream = file.open();
    fill(file, stream);
    counts.push_back(file.folios.size());
    counts.push_back(faults(file));
  }
  return counts;
}

TEST_CASE("folios and faults of forced readers") {
  using Counts = std::vector<uint64_t>;
  CHECK(folios_and_faults(kGiB, [](SimFile& file, Stream& stream) {
          for (uint64_t at = 0; at < kGiB; at += 2 * kMiB) {
            file.willneed(stream, at, 2 * kMiB);
          }
        }) == Counts{262144, 16384, 512, 512});
  CHECK(folios_and_faults(kGiB, [](SimFile& file, Stream& stream) {
          file.advise(stream, 1);
          file.read_on(stream, 0, kMiB);
        }) == Counts{262144, 16384, 1024, 1024});
  CHECK(folios_and_faults(8 * kMiB, [](SimFile& file, Stream& stream) {
          file.willneed(stream, 0, 8 * kMiB);
        }) == Counts{2048, 128, 4, 4});
}

TEST_CASE("without large folios") {
  SimFile file(64 * kMiB, 32, 128);
  file.limits.max_order = 0;
  Stream stream = file.open();
  file.read_on(stream, 0, 64 * kKiB, 64 * kPage);
  CHECK(windows_text(file.plans) == "0+32/16 32+32/32 64+32/32");
  CHECK(order_counts(file)[0] == 96);
  CHECK(file.folios.at(64).mark);
  CHECK(stream.order == 0);
}

// The view is asked once for each gap, not once for each page or folio.
TEST_CASE("questions asked of the view") {
  static unsigned asked;
  static const auto hole = [](const void*, PageIndex from, uint64_t) {
    ++asked;
    return from;
  };
  const View view{nullptr, [](const void*, PageIndex) { return false; }, hole,
                  hole,
                  [](const void*, PageIndex, PageIndex limit) {
                    ++asked;
                    return limit;
                  }};
  Limits limits;
  limits.file_pages = 512;
  Stream stream;
  asked = 0;
  Layout layout(stream, limits, view, on_force(stream, limits, 1, 511, false));
  unsigned folios = 0;
  while (layout.next().action == Step::kInsert) {
    layout.inserted();
    ++folios;
  }
  CHECK(folios == 9);
  CHECK(asked == 2);
}

}  // namespace
}  // namespace racache::readahead
