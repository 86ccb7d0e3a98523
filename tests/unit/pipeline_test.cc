// SPDX-License-Identifier: MIT
// How far a stream is read ahead decides what a short stream reads in vain and
// whether a fast device idles. The rule is pure, so it is tested without any.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "core/pipeline.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace racache;

namespace {

constexpr uint64_t kPlenty = 1 << 20;

readahead::Stream window(PageIndex start, uint32_t size) {
  readahead::Stream s;
  s.start = start;
  s.size = s.async_size = size;
  return s;
}

// Windows of 32 pages planned at the mark `mark`, behind the one that the
// policy plans there.
unsigned planned(const Pipeline& p, PageIndex mark, int64_t configured,
                 uint64_t most = kPlenty) {
  readahead::Stream s = window(mark + 32, 32);
  unsigned n = 0;
  while (p.wants_more(s, mark, configured, most)) {
    s.start += 32;
    ++n;
  }
  return n;
}

}  // namespace

TEST_CASE("depth 1 is the kernel's way: never one window more") {
  Pipeline p;
  p.begin(0, 0);
  for (PageIndex mark = 0; mark < 10000; mark += 32) {
    CHECK(planned(p, mark, 1) == 0);
  }
}

TEST_CASE("an established stream has as many windows ahead as asked for") {
  Pipeline p;
  p.begin(0, 0);
  CHECK(planned(p, 100000, 2) == 1);
  CHECK(planned(p, 100000, 8) == 7);
  CHECK(planned(p, 100000, 64) == 63);
}

TEST_CASE("a stream reads ahead at most twice what it has read") {
  Pipeline p;
  p.begin(0, 1000);
  for (PageIndex mark = 1000; mark < 3000; mark += 32) {
    const uint64_t end = mark + 64 + planned(p, mark, 64) * 32;
    CHECK(end - mark <= std::max<uint64_t>(64, 2 * (mark - 1000)));
  }
  CHECK(planned(p, 1000, 8) == 0);
  CHECK(planned(p, 1032, 8) == 0);
  CHECK(planned(p, 1064, 8) == 2);
}

TEST_CASE("memory bounds a pipeline") {
  Pipeline p;
  p.begin(0, 0);
  CHECK(planned(p, 100000, 64, 128) == 2);
  CHECK(planned(p, 100000, 64, 0) == 0);
}

TEST_CASE("auto begins at two and grows with each wait, up to eight") {
  Pipeline p;
  p.begin(0, 0);
  CHECK(planned(p, 100000, -1) == 1);
  p.starved();
  CHECK(planned(p, 100000, -1) == 2);
  for (int i = 0; i < 100; ++i) p.starved();
  CHECK(planned(p, 100000, -1) == 7);
}

TEST_CASE("a miss behind the stream's windows goes on, elsewhere begins anew") {
  Pipeline p;
  p.begin(0, 0);
  p.begin(5000, 5000);
  CHECK(p.origin == 0);
  p.begin(5032, 9000);
  CHECK(p.origin == 9000);
  CHECK(planned(p, 9032, 8) == 0);
}

TEST_CASE("marks of one's own earlier windows are known, others are not") {
  Pipeline p;
  p.begin(0, 64);
  const readahead::Stream s = window(256, 32);
  CHECK(p.earlier_mark(s, 64));
  CHECK(p.earlier_mark(s, 224));
  CHECK_FALSE(p.earlier_mark(s, 256));  // the last: the policy's own
  CHECK_FALSE(p.earlier_mark(s, 32));   // before the stream
  p.join(128);
  CHECK_FALSE(p.earlier_mark(s, 64));
  CHECK_FALSE(p.earlier_mark(readahead::Stream{}, 0));
}
