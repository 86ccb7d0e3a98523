// SPDX-License-Identifier: MIT
// Memory that others need is given back, and no more; what has been given back
// is taken again when it stays free.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "core/memory_watch.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <random>

#include "engine_fixture.h"

using namespace racache;

namespace {

constexpr uint64_t kMiB = 1 << 20;
using State = MemoryWatch::State;

uint64_t next(const State& state) { return MemoryWatch::next_target(state); }
int64_t mib(int64_t n) { return n * static_cast<int64_t>(kMiB); }

constexpr uint64_t kFile = 24 * kMiB;

struct PressureFixture : EngineFixture {
  OpenStream stream{};
  static Options options() {
    Options o;
    o.arena_bytes = 32 * kMiB;
    o.backend.content = content;
    return o;
  }
  PressureFixture() : EngineFixture(options()) {
    REQUIRE(adopt(0, kFile, 32, 256));
    open(stream);
  }
  void read_all() {
    for (uint64_t at = 0; at < kFile; at += 65536) {
      REQUIRE(read(stream, at, 65536).complete);
      REQUIRE(right(at, 65536));
    }
    settle();
  }
  uint64_t held() { return engine().arena.held_blocks() * kBlockSize; }
  uint64_t resident() {
    unsigned char page[kBlockPages];
    uint64_t pages = 0;
    const Arena& arena = engine().arena;
    for (uint64_t b = 0; b < arena.block_count(); ++b) {
      const FolioId head = static_cast<FolioId>(b * kBlockPages + 1);
      REQUIRE(mincore(arena.memory(head), kBlockSize, page) == 0);
      for (const unsigned char p : page) pages += p & 1;
    }
    return pages * kPageSize;
  }
};

}  // namespace

TEST_CASE("with room enough, all that was asked for") {
  CHECK(next({100 * kMiB, 0, 8 * kMiB, INT64_MAX, true}) == 100 * kMiB);
  CHECK(next({100 * kMiB, 90 * kMiB, 90 * kMiB, mib(20), true}) == 100 * kMiB);
}

TEST_CASE("half of the room is left to others") {
  CHECK(next({100 * kMiB, 40 * kMiB, 100 * kMiB, mib(40), true}) == 60 * kMiB);
  CHECK(next({100 * kMiB, 40 * kMiB, 100 * kMiB, 0, true}) == 40 * kMiB);
}

TEST_CASE("what others need goes, and a quarter more") {
  CHECK(next({100 * kMiB, 80 * kMiB, 100 * kMiB, mib(-16), true}) == 60 * kMiB);
  CHECK(next({100 * kMiB, 80 * kMiB, 80 * kMiB, mib(-900), true}) == 8 * kMiB);
  CHECK(next({100 * kMiB, 80 * kMiB, 80 * kMiB, INT64_MIN, true}) == 8 * kMiB);
}

TEST_CASE("after a need it does not grow until there was calm") {
  CHECK(next({100 * kMiB, 40 * kMiB, 50 * kMiB, mib(90), false}) == 50 * kMiB);
  CHECK(next({100 * kMiB, 40 * kMiB, 50 * kMiB, mib(90), true}) == 84 * kMiB);
}

TEST_CASE("what others take is expected to go on for two periods") {
  constexpr uint64_t kPeriodNs = 300'000'000;
  const auto foresee = MemoryWatch::foresee;
  CHECK(foresee(mib(50), mib(90), mib(90), kPeriodNs) == mib(50));
  CHECK(foresee(mib(50), mib(80), mib(90), kPeriodNs) == mib(50));
  CHECK(foresee(mib(50), mib(90), mib(80), kPeriodNs) == mib(30));
  CHECK(foresee(mib(50), mib(90), mib(80), 2 * kPeriodNs) == mib(40));
  CHECK(foresee(mib(50), mib(90), mib(50), kPeriodNs) == mib(-30));
  CHECK(foresee(mib(50), mib(90), mib(80), 0) == mib(50));
  CHECK(foresee(INT64_MAX, INT64_MAX, mib(80), kPeriodNs) == INT64_MAX);
  CHECK(foresee(mib(50), INT64_MAX, INT64_MIN, 1) < mib(-1000));
}

TEST_CASE("a limit that was lowered is obeyed without need") {
  CHECK(next({60 * kMiB, 90 * kMiB, 100 * kMiB, mib(500), true}) == 60 * kMiB);
}

TEST_CASE("always whole blocks, between the least and what was asked for") {
  std::mt19937_64 random(5);
  for (int i = 0; i < 100000; ++i) {
    const State s{random() >> (random() % 64), random() >> (random() % 64),
                  random() >> (random() % 64),
                  static_cast<int64_t>(random()) >> (random() % 64),
                  (random() & 1) != 0};
    const uint64_t target = next(s);
    REQUIRE(target % kBlockSize == 0);
    REQUIRE(target <= s.configured);
    if (s.configured >= 8 * kMiB) REQUIRE(target >= 8 * kMiB);
  }
}

TEST_CASE_FIXTURE(PressureFixture, "memory goes back to the kernel at once") {
  read_all();
  REQUIRE(held() >= kFile);
  engine().arena.allow(10 * kMiB / kBlockSize);
  CHECK(engine().arena.fresh_blocks() == 0);
  engine().evictor.shrink(engine());
  CHECK(held() == 10 * kMiB);
  CHECK(resident() <= 10 * kMiB);
  CHECK(engine().arena.limit() == 10 * kMiB);
  // It goes on serving, within that.
  read_all();
  CHECK(held() == 10 * kMiB);
  CHECK(resident() <= 10 * kMiB);
}

TEST_CASE_FIXTURE(PressureFixture, "and is taken again") {
  CHECK_FALSE(MemoryWatch::wanted(engine()));
  read_all();
  engine().arena.allow(4);
  engine().evictor.shrink(engine());
  CHECK(held() == 8 * kMiB);
  CHECK(MemoryWatch::wanted(engine()));  // or nobody would ever allow more
  engine().arena.allow(engine().arena.block_count());
  read_all();
  const uint64_t before = counters().device_bytes;
  read_all();
  CHECK(counters().device_bytes == before);
  CHECK(held() >= kFile);
}

TEST_CASE_FIXTURE(PressureFixture, "what is used all the time stays") {
  const auto use = [this] {
    for (uint64_t at = 0; at < 4 * kMiB; at += 65536) read(stream, at, 65536);
    settle();
  };
  for (int i = 0; i < 4; ++i) use();
  read_all();
  const uint64_t before = counters().device_bytes;
  for (const uint64_t mib : {20u, 16u, 12u, 8u}) {
    engine().arena.allow(mib * kMiB / kBlockSize);
    engine().evictor.shrink(engine());
    use();
  }
  CHECK(held() == 8 * kMiB);
  CHECK(counters().device_bytes - before < kMiB);
}

TEST_CASE_FIXTURE(PressureFixture,
                  "locked memory cannot go, and costs nothing") {
  read_all();
  for (uint64_t b = 0; b < engine().arena.block_count(); ++b) {
    const FolioId head = static_cast<FolioId>(b * kBlockPages + 1);
    // By number: sanitizers make libc's mlock() do nothing.
    if (syscall(SYS_mlock, engine().arena.memory(head), kPageSize) != 0) return;
  }
  engine().arena.allow(4);
  const uint64_t evicted = counters().evicted;
  for (int i = 0; i < 50; ++i) engine().evictor.shrink(engine());
  CHECK(held() >= kFile);
  // One block's worth was tried, not the cache.
  CHECK(counters().evicted - evicted < 2 * kBlockPages);
}
