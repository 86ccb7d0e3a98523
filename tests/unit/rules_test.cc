// SPDX-License-Identifier: MIT
// What a user may switch off, or have more of, has an effect, and exactly the
// one that is promised: look-ups of a hit, and the width of a stream's windows
// when several are in flight.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include "tests/unit/engine_fixture.h"

using namespace racache;

namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint32_t kReadAhead = 32, kIo = 128;  // pages

struct Fixture : EngineFixture {
  static Options options(unsigned latency) {
    Options o;
    o.backend.content = content;
    o.backend.file_size = kSize;
    o.backend.latency = latency;
    return o;
  }
  explicit Fixture(unsigned latency = 1) : EngineFixture(options(latency)) {
    REQUIRE(adopt(0, kSize, kReadAhead, kIo));
    open(stream);
  }
  ~Fixture() {
    forget();
    check_nothing_leaked();
  }
  // One page, then the rest in large steps; device reads. `settled`: each is
  // done before the next step.
  uint64_t read_behind_page(bool settled) {
    CHECK(read(stream, 0, kPageSize).complete);
    for (uint64_t at = kPageSize; at < kSize; at += kMiB) {
      if (settled) settle();
      CHECK(read(stream, at, kMiB).complete);
    }
    return fake_submitted(backend());
  }

  static constexpr uint64_t kSize = 64 * kMiB;
  OpenStream stream{};
};

// As the statistics count them: a plain hit is one look-up.
uint64_t lookups() {
  const uint64_t plain = epoch::self()->recent.hits;
  return Fixture::counters().lookups + plain;
}

uint64_t lookups_of_hits(Fixture& f, uint64_t reads) {
  CHECK(f.read(f.stream, 0, kPageSize).complete);
  f.settle();
  const uint64_t before = lookups();
  for (uint64_t i = 0; i < reads; ++i) {
    CHECK(f.read(f.stream, 0, kPageSize).complete);
  }
  return lookups() - before;
}

}  // namespace

TEST_CASE("a hit in one folio looks once, without the rule twice") {
  for (const bool single : {true, false}) {
    Fixture f;
    f.engine().config.single_lookup = single;
    f.file().plain_size = single ? Fixture::kSize : 0;  // as adoption has it
    CHECK(lookups_of_hits(f, 100) == (single ? 100 : 200));
  }
}

TEST_CASE("several windows in flight are no more device reads than one") {
  for (const unsigned latency : {1u, 2u, 7u}) {
    for (const bool settled : {true, false}) {
      CAPTURE(latency);
      CAPTURE(settled);
      uint64_t reads[2];
      for (const int64_t depth : {1, 8}) {
        Fixture f(latency);
        f.engine().config.depth = depth;
        reads[depth == 8] = f.read_behind_page(settled);
      }
      CHECK(reads[1] <= reads[0]);
    }
  }
}
