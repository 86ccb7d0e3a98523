// SPDX-License-Identifier: MIT
// The worked examples of kernel-semantics.md, sections 2, 3.2 and 7: which
// windows the policy decides on, for streams, jumps, hints and marks. The
// numbers come from a model that was compared with a running kernel, so a
// difference here is a difference from Linux.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include "tests/unit/readahead_sim.h"

namespace racache::readahead {
namespace {

constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB;
constexpr uint64_t kPage = kPageSize;

using Ranges = std::vector<std::pair<PageIndex, uint64_t>>;

SimFile usual_file(bool half_window = false, uint64_t size = 64 * kMiB) {
  SimFile file(size, 32, 128);
  file.limits.half_window = half_window;
  return file;
}

// The windows of a reader of `count` bytes at a time, from `pos` to `stop`.
std::string windows(SimFile file, uint64_t pos, uint64_t count, uint64_t stop) {
  Stream stream = file.open();
  file.read_on(stream, pos, count, stop);
  return windows_text(file.plans);
}

unsigned count_kind(const SimFile& file, Kind kind) {
  return static_cast<unsigned>(
      std::count_if(file.plans.begin(), file.plans.end(),
                    [kind](const Plan& p) { return p.kind == kind; }));
}

TEST_CASE("sizes of first windows") {
  const struct {
    uint32_t most;
    uint64_t size[8];
  } rows[] = {{32, {4, 4, 8, 8, 16, 16, 32, 32}},
              {128, {4, 8, 16, 16, 16, 16, 32, 64}},
              {9, {2, 4, 9, 9, 9, 9, 9, 9}},
              {1, {1, 1, 1, 1, 1, 1, 1, 1}}};
  const uint64_t requests[] = {1, 2, 3, 4, 5, 8, 9, 32};
  for (const auto& row : rows) {
    for (size_t i = 0; i < 8; ++i) {
      SimFile file(64 * kMiB, row.most, 0);
      Stream s = file.open();
      const Plan plan = on_miss(s, file.limits, file.view(), 0, requests[i]);
      INFO(row.most, " ", requests[i]);
      CHECK(plan.kind == Kind::kInit);
      CHECK(plan.pages == row.size[i]);
    }
  }
}

TEST_CASE("sizes of the windows that follow") {
  const struct {
    uint32_t most;
    uint32_t size[6];
  } rows[] = {{32, {4, 4, 8, 16, 32, 32}},
              {128, {4, 8, 16, 16, 32, 34}},
              {9, {2, 4, 8, 9, 16, 17}}};  // never below the last one
  const uint32_t current[] = {1, 2, 4, 8, 16, 17};
  for (const auto& row : rows) {
    for (size_t i = 0; i < 6; ++i) {
      SimFile file(64 * kMiB, row.most, 0);
      Stream s = file.open();
      // The new window ends at a multiple of 4, so nothing is trimmed.
      s.start = 64 - (current[i] + row.size[i]) % 4;
      s.size = s.async_size = current[i];
      const Plan plan = on_mark(s, file.limits, file.view(), s.start, 0, 1);
      INFO(row.most, " ", current[i]);
      CHECK(plan.kind == Kind::kAsync);
      CHECK(plan.pages == row.size[i]);
    }
  }
}

TEST_CASE("sequential, 4 KiB from 0") {
  CHECK(windows(usual_file(), 0, kPage, 97 * kPage) ==
        "0+4/3 4+8/8 12+4/4 16+8/8 24+8/8 32+16/16 48+16/16 64+32/32 96+32/32 "
        "128+32/32");
  CHECK(windows(usual_file(true), 0, kPage, 97 * kPage) ==
        "0+4/3 4+8/8 12+12/12 24+24/24 48+16/16 64+32/32 96+32/32 128+32/32");
}

TEST_CASE("sequential, 4 KiB, FADV_SEQUENTIAL") {
  SimFile file = usual_file();
  Stream s = file.open();
  file.advise(s, 2);
  file.read_on(s, 0, kPage, 193 * kPage);
  CHECK(windows_text(file.plans) ==
        "0+4/3 4+8/8 12+4/4 16+8/8 24+8/8 32+16/16 48+16/16 64+32/32 96+32/32 "
        "128+64/64 192+64/64 256+64/64");
}

TEST_CASE("sequential, larger reads") {
  CHECK(windows(usual_file(), 0, 64 * kKiB, 80 * kPage) ==
        "0+32/16 32+32/32 64+32/32 96+32/32");
  CHECK(windows(usual_file(), 0, kMiB, 2 * kMiB) ==
        "0+128/64 128+128/128 256+128/128 384+128/128 512+128/128");
  CHECK(windows(SimFile(64 * kMiB, 32, 32), 0, kMiB, kMiB) ==
        "0+32/16 32+32/32 64+32/32 96+32/32 128+32/32 160+32/32 192+32/32 "
        "224+32/32 256+32/32");
}

TEST_CASE("sequential, from the middle") {
  CHECK(windows(usual_file(), 17 * kPage, kPage, 65 * kPage) ==
        "17+1/0 18+4/3 22+6/6 28+4/4 32+8/8 40+16/16 56+8/8 64+16/16 80+16/16");
  CHECK(windows(usual_file(), 100 * kPage, 64 * kKiB, 228 * kPage) ==
        "100+16/0 116+32/16 148+32/32 180+28/28 208+16/16 224+32/32 "
        "256+32/32");
}

// The limit follows what is left of the read: hence windows of 65 and 63.
TEST_CASE("4 KiB, then 1 MiB at a time") {
  for (const bool half_window : {false, true}) {
    SimFile file = usual_file(half_window);
    Stream s = file.open();
    file.read(s, 0, kPage);
    file.read_on(s, kPage, kMiB, 3 * kMiB);
    CHECK(windows_text(file.plans) ==
          (half_window
               ? "0+4/3 4+16/16 20+28/28 48+48/48 96+96/96 192+64/64 256+65/65 "
                 "321+63/63 384+126/126 510+66/66 576+64/64 640+128/128 "
                 "768+128/128 896+128/128"
               : "0+4/3 4+16/16 20+28/28 48+16/16 64+32/32 96+32/32 128+64/64 "
                 "192+64/64 256+65/65 321+63/63 384+126/126 510+2/2 512+4/4 "
                 "516+8/8 524+16/16 540+32/32 572+64/64 636+4/4 640+16/16 "
                 "656+32/32 688+64/64 752+81/81 833+63/63"));
    // (48+48), (96+96) and (510+66) were kept by the rule.
    CHECK(std::count_if(file.plans.begin(), file.plans.end(),
                        [](const Plan& p) { return p.trim_avoided; }) ==
          (half_window ? 3 : 0));
  }
}

TEST_CASE("nothing is read past the last page") {
  SimFile small = usual_file(false, 10 * kPage + 1);
  Stream s = small.open();
  small.read_on(s, 0, kPage);
  CHECK(windows_text(small.plans) == "0+4/3 4+8/8 12+4/4");
  CHECK(small.ranges == Ranges{{0, 4}, {4, 7}});

  SimFile file = usual_file(false, 35 * kPage);
  s = file.open();
  file.read_on(s, 0, kPage);
  CHECK(file.ranges ==
        Ranges{{0, 4}, {4, 8}, {12, 4}, {16, 8}, {24, 8}, {32, 3}});
}

void read_pages(SimFile& file, Stream& s, std::vector<PageIndex> pages) {
  for (PageIndex page : pages) file.read(s, page * kPage, kPage);
}

TEST_CASE("strides") {
  SimFile second = usual_file(), fourth = usual_file();
  Stream s2 = second.open(), s4 = fourth.open();
  for (PageIndex i = 0; i < 8; ++i) read_pages(second, s2, {i * 2});
  for (PageIndex i = 0; i < 12; ++i) read_pages(fourth, s4, {i * 4});
  CHECK(windows_text(second.plans) == "0+4/3 4+4/3 8+4/3 12+4/3");
  CHECK(count_kind(second, Kind::kInit) == 4);
  CHECK(windows_text(fourth.plans) == "0+4/3 4+9/1 13+15/15 28+32/1");
  CHECK(count_kind(fourth, Kind::kContext) == 2);
}

TEST_CASE("backwards") {
  SimFile file = usual_file();
  Stream s = file.open();
  read_pages(file, s, {63, 62, 61, 60, 59, 58, 57, 56});
  CHECK(count_kind(file, Kind::kStandalone) == 8);
  CHECK(file.folios.size() == 8);
}

TEST_CASE("a mark that nobody reads") {
  SimFile file = usual_file();
  Stream s = file.open();
  read_pages(file, s, {500, 501, 200, 503, 504});
  CHECK(windows_text(file.plans) == "500+1/0 501+4/3 200+1/0");
  CHECK(file.folios.at(502).mark);
}

TEST_CASE("two streams on one descriptor") {
  SimFile file = usual_file();
  Stream s = file.open();
  for (PageIndex i = 0; i < 40; ++i) read_pages(file, s, {i, 1000 + i});
  CHECK(windows_text(file.plans) ==
        "0+4/3 1000+1/0 4+8/8 1001+1/0 1002+3/1 12+16/16 1005+3/3 1008+6/6 "
        "1014+10/10 28+4/4 1024+16/16 1040+16/16 32+10/10 42+20/20");
  CHECK(count_kind(file, Kind::kContext) == 1);
  CHECK(count_kind(file, Kind::kForeign) > 2);
}

TEST_CASE("history found in the cache") {
  const auto miss = [](PageIndex cached, PageIndex page, uint64_t request) {
    SimFile file = usual_file();
    for (PageIndex i = cached; i < page; ++i) file.put(i, 0);
    Stream s = file.open();
    return on_miss(s, file.limits, file.view(), page, request);
  };
  CHECK(window_text(miss(90, 100, 1)) == "100+11/1");
  CHECK(window_text(miss(90, 100, 9)) == "100+19/1");
  CHECK(window_text(miss(90, 100, 10)) == "100+10/0");  // standalone
  CHECK(window_text(miss(50, 100, 1)) == "100+32/1");
  CHECK(window_text(miss(50, 100, 30)) == "100+32/1");  // 31 are counted
  CHECK(window_text(miss(50, 100, 31)) == "100+31/0");
  CHECK(window_text(miss(0, 10, 1)) == "10+21/1");  // all from 0 on: doubled
  CHECK(window_text(miss(0, 10, 10)) == "10+10/0");
  CHECK(window_text(miss(1, 10, 1)) == "10+10/1");
}

TEST_CASE("another reader's mark") {
  SimFile file = usual_file();
  for (PageIndex i = 100; i < 132; ++i) file.put(i, 0);
  Stream s = file.open();
  CHECK(window_text(on_mark(s, file.limits, file.view(), 108, 0, 1)) ==
        "132+32/32");
  CHECK(s.order == 2);
  s = file.open();
  file.put(132, 0);  // 33 pages ahead of 100: enough
  CHECK(on_mark(s, file.limits, file.view(), 100, 0, 1).kind == Kind::kNone);
  CHECK(window_text(on_mark(s, file.limits, file.view(), 101, 0, 1)) ==
        "133+31/31");
  // At the very end the gap is past the file, and the view is not asked.
  const PageIndex last = file.limits.file_pages - 1;
  file.put(last, 0);
  CHECK(on_mark(s, file.limits, file.view(), last, 0, 1).start == last + 1);
  s.ra_pages = 0;
  CHECK(on_mark(s, file.limits, file.view(), 101, 0, 64).kind == Kind::kNone);
}

TEST_CASE("FADV_RANDOM, no readahead, WILLNEED") {
  SimFile file = usual_file();
  Stream s = file.open();
  file.advise(s, 1);
  file.read(s, 0, kMiB);
  file.read(s, 3000 * kPage + 100, 200);
  CHECK(file.ranges == Ranges{{0, 128}, {128, 128}, {3000, 1}});

  SimFile off(64 * kMiB, 0, 128);
  s = off.open();
  off.read(s, 0, 16 * kKiB);
  CHECK(off.ranges == Ranges{{0, 1}, {1, 1}, {2, 1}, {3, 1}});
  CHECK(count_kind(off, Kind::kForced) == 4);

  SimFile all = usual_file();
  all.willneed(all.open(), 0, 0);
  CHECK(all.ranges == Ranges{{0, 128}});
}

TEST_CASE("a forced request without the clamp") {
  SimFile file = usual_file();
  const Stream s = file.open();
  CHECK(on_force(s, file.limits, 100, ~uint64_t{0}, false).pages == 16284);
  CHECK(on_force(s, file.limits, 100, ~uint64_t{0}, true).pages == 128);
  CHECK(on_force(s, file.limits, 16384, 1, false).kind == Kind::kNone);
  CHECK(on_force(s, file.limits, 0, 0, false).kind == Kind::kNone);
  file.willneed(s, 0, 0, false);
  CHECK(file.ranges.size() == 32);  // 2 MiB each
  CHECK(file.folios.size() == 32);
}

// Seed 004 is not copied: hints in between do not make the stream's own next
// mark a foreign one, wherever they point.
TEST_CASE("a hint leaves the stream alone") {
  SimFile plain = usual_file(), hinted = usual_file();
  Stream a = plain.open(), b = hinted.open();
  for (uint64_t i = 0; i < 30; ++i) {
    plain.read(a, i * 64 * kKiB, 64 * kKiB);
    hinted.read(b, i * 64 * kKiB, 64 * kKiB);
    hinted.willneed(b, 48 * kMiB + i * kMiB / 16, 64 * kKiB);
    hinted.willneed(b, i * 64 * kKiB, 64 * kKiB, false);
  }
  CHECK(count_kind(hinted, Kind::kForeign) == 0);
  CHECK(count_kind(hinted, Kind::kAsync) == count_kind(plain, Kind::kAsync));
  CHECK(a.start == b.start);
  CHECK(a.size == b.size);
  CHECK(a.async_size == b.async_size);
  CHECK(a.order == b.order);
}

TEST_CASE("trim of asynchronous windows") {
  const struct {
    PageIndex start;
    uint32_t size;
    uint16_t order;
    uint32_t most;
    uint64_t plain, half;
  } rows[] = {{12, 16, 4, 32, 4, 12},       {20, 32, 4, 128, 28, 28},
              {48, 64, 6, 128, 16, 48},     {510, 128, 8, 128, 2, 66},
              {127, 128, 8, 128, 1, 65},    {129, 128, 8, 128, 127, 127},
              {384, 126, 7, 128, 126, 126}, {33, 32, 2, 32, 31, 31},
              {256, 65, 8, 65, 65, 65},     {192, 256, 8, 512, 64, 192},
              {768, 512, 9, 512, 256, 256}, {100, 384, 9, 384, 284, 284},
              {180, 32, 4, 32, 28, 28}};
  for (const auto& row : rows) {
    INFO(row.start, " ", row.size);
    for (const bool half_window : {false, true}) {
      // A foreign mark right before the window sets its start and size.
      SimFile file(64 * kMiB, row.most, 0);
      file.limits.half_window = half_window;
      file.put(row.start - 1, 0);
      Stream s = file.open();
      s.order = static_cast<uint16_t>(row.order - 2);
      const uint64_t grows = row.size == row.most ? row.most : row.size / 2;
      const Plan plan =
          on_mark(s, file.limits, file.view(), row.start - 1, 0, grows - 1);
      const uint64_t wanted = half_window ? row.half : row.plain;
      CHECK(plan.start == row.start);
      CHECK(plan.pages == wanted);
      CHECK(plan.lookahead == wanted);
      CHECK(plan.trim_avoided == (wanted != row.plain));
    }
  }
}

// One reader of a whole file; `first` bytes are read before the others.
uint64_t device_requests(uint32_t io_kb, uint64_t first, uint64_t count,
                         bool half_window) {
  SimFile file(512 * kMiB, 32, io_kb / 4);
  file.limits.half_window = half_window;
  Stream s = file.open();
  if (first != 0) file.read(s, 0, first);
  file.read_on(s, first, count);
  uint64_t pages = 0;
  for (const auto& range : file.ranges) pages += range.second;
  CHECK(pages == file.limits.file_pages);
  return file.device_requests();
}

TEST_CASE("device reads of a 512 MiB file") {
  const struct {
    uint32_t io_kb;
    uint64_t first, count, plain, half;
  } rows[] = {
      {512, kPage, kMiB, 3327, 1030},      {256, kPage, kMiB / 2, 6145, 2054},
      {2048, kPage, 3 * kMiB, 271, 346},   {1024, kPage, kMiB, 1027, 1027},
      {2048, kPage, kMiB, 1027, 1027},     {512, 0, kMiB, 1024, 1024},
      {512, kPage, 64 * kKiB, 4101, 4099}, {512, 0, 64 * kKiB, 4096, 4096},
      {1280, kPage, 3 * kMiB, 414, 414}};
  for (const auto& row : rows) {
    INFO(row.io_kb, " ", row.first, " ", row.count);
    CHECK(device_requests(row.io_kb, row.first, row.count, false) == row.plain);
    CHECK(device_requests(row.io_kb, row.first, row.count, true) == row.half);
  }
}

TEST_CASE("requests that ask for nothing") {
  SimFile file = usual_file();
  Stream s = file.open();
  CHECK(on_miss(s, file.limits, file.view(), 16384, 1).kind == Kind::kNone);
  CHECK(on_miss(s, file.limits, file.view(), 5, 0).kind == Kind::kNone);
  // A mark met by a stream that never had a window: expected at page 0, but
  // there is nothing to grow from.
  CHECK(on_mark(s, file.limits, file.view(), 0, 0, 1).kind == Kind::kNone);
}

}  // namespace
}  // namespace racache::readahead
