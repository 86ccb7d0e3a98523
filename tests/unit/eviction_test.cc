// SPDX-License-Identifier: MIT
// What stays decides everything once the data is larger than the cache. The
// engine's own eviction is played traces over a backend without a device, and
// its promises are tried: a scan does not flush what is used, parts of large
// folios stay, memory is bounded, and large folios can be had to the end.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <fstream>
#include <random>

#include "cli/sim_world.h"
#include "core/engine.h"

using namespace racache;
using cli::Hint;
using cli::SimOptions;
using cli::SimResult;
using cli::SimWorld;
using cli::Trace;

namespace {

constexpr uint64_t kMib = 1 << 20;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kPatience = 10;  // one thread: they look at less, as well
#else
constexpr int kPatience = 1;
#endif

cli::TraceEvent event(uint32_t file, uint64_t offset, uint64_t length,
                      Hint hint = Hint::kRead) {
  return {file, file, hint, offset, length, 0};
}

// tests/data/make_traces.py makes them, for caches of these sizes.
uint64_t cache_for(const char* name) {
  return std::string(name) == "loop" ? 32 * kMib : 8 * kMib;
}

Trace load(const char* name) {
  std::ifstream in(std::string(RACACHE_TRACES) + "/" + name);
  REQUIRE(in.is_open());
  return cli::parse_trace(in);
}

SimResult run(const Trace& trace, EvictKind kind, const char* name) {
  SimOptions options;
  options.cache_bytes = cache_for(name);
  options.evict = kind;
  return cli::simulate(trace, options);
}

constexpr EvictKind kOthers[] = {EvictKind::kLru, EvictKind::kFifo,
                                 EvictKind::kClock};

// The default's misses may be 2 % more than anyone's.
void check_not_behind(const char* name) {
  const Trace trace = load(name);
  const SimResult mine = run(trace, EvictKind::kS3Fifo, name);
  for (const EvictKind kind : kOthers) {
    const SimResult other = run(trace, kind, name);
    INFO(name, " against policy ", static_cast<int>(kind));
    CHECK(mine.hit_ratio() > other.hit_ratio() - 0.02);
    CHECK(static_cast<double>(mine.counters.device_bytes) <
          1.02 * static_cast<double>(other.counters.device_bytes));
  }
}

uint64_t cached_pages(SimWorld& world, PageIndex first, PageIndex end) {
  uint64_t count = 0;
  for (PageIndex p = first; p < end; ++p) {
    count += world.file(0).index.lookup(p) != kNoFolio;
  }
  return count;
}

}  // namespace

TEST_CASE("on no trace is the default behind another policy by 2 %") {
  for (const char* name : {"zipf", "scan_get", "loop", "streams"}) {
    check_not_behind(name);
  }
}

TEST_CASE("gets among a scan: fewer reads of the device than any other") {
  const Trace trace = load("scan_get");
  const SimResult mine = run(trace, EvictKind::kS3Fifo, "scan_get");
  for (const EvictKind kind : kOthers) {
    const SimResult other = run(trace, kind, "scan_get");
    CHECK(mine.hit_ratio() > other.hit_ratio() + 0.02);
    CHECK(mine.counters.device_bytes < other.counters.device_bytes);
  }
}

TEST_CASE("a loop larger than the cache hits, where the others never do") {
  const Trace trace = load("loop");
  const uint64_t mine =
      run(trace, EvictKind::kS3Fifo, "loop").counters.device_bytes;
  for (const EvictKind kind : kOthers) {
    CHECK(mine * 10 < run(trace, kind, "loop").counters.device_bytes * 9);
  }
}

TEST_CASE("whatever is read, memory stays within its limits") {
  for (const EvictKind kind : {EvictKind::kS3Fifo, EvictKind::kLru,
                               EvictKind::kFifo, EvictKind::kClock}) {
    SimOptions options;
    options.evict = kind;
    options.cache_bytes = 64 * kMib;
    SimWorld world(options, {512 * kMib}, 1);
    std::mt19937_64 random(5);
    for (int i = 0; i < 20000 / kPatience; ++i) {
      const uint64_t length = uint64_t{4096} << random() % 8;
      const uint64_t offset = random() % (512 * kMib - length);
      const Hint hint = random() % 64 == 0 ? Hint::kWillneed : Hint::kRead;
      world.play(event(0, offset, length, hint));
    }
    Engine& engine = world.engine();
    const uint64_t metadata = engine.metadata.touched() +
                              engine.arena.metadata_bytes() +
                              engine.evictor.policy().metadata_bytes();
    CHECK(metadata * 100 <= engine.arena.limit());
    CHECK(engine.evictor.policy().probation_pages() <=
          engine.arena.limit() / kPageSize);
  }
}

TEST_CASE("of a large folio that is hot in one place, that place stays") {
  SimOptions options;
  options.cache_bytes = 32 * kMib;
  SimWorld world(options, {256 * kMib}, 1);
  world.play(event(0, 0, 2 * kMib, Hint::kWillneed));
  world.play(event(0, 0, 0, Hint::kRandom));
  REQUIRE(world.engine().arena.folio(world.file(0).index.lookup(0)).pages() ==
          512);
  for (uint64_t at = 4 * kMib; at < 128 * kMib; at += kMib) {
    for (uint64_t k = 0; k < 4; ++k) {
      world.play(event(0, kMib + (at % 7 + k) * 40960, 4096));  // the third
    }
    world.play(event(0, at, kMib));
  }
  CHECK(cached_pages(world, 256, 384) == 128);
  CHECK(cached_pages(world, 0, 256) == 0);
  CHECK(cached_pages(world, 384, 512) == 0);
}

TEST_CASE("what is read once by promise is not promoted") {
  SimOptions options;
  options.cache_bytes = 16 * kMib;
  SimWorld world(options, {256 * kMib}, 1);
  world.play(event(0, 0, 0, Hint::kNoreuse));
  for (int pass = 0; pass < 3; ++pass) {
    for (uint64_t at = 0; at < kMib; at += 65536) {
      world.play(event(0, at, 65536));
    }
  }
  for (uint64_t at = 8 * kMib; at < 64 * kMib; at += 65536) {
    world.play(event(0, at, 65536));
  }
  CHECK(cached_pages(world, 0, 256) == 0);
}

// Hours of mixed orders, then requests for the largest folio while hardly
// anything is free. The reclaimer frees some MiB at a time, so not every moment
// is such a one.
TEST_CASE("95 % full, with mixed orders: there still are 2 MiB folios") {
  SimOptions options;
  options.cache_bytes = 256 * kMib;
  SimWorld world(options, {4096 * kMib}, 1);
  Engine& engine = world.engine();
  const uint64_t pages = engine.arena.limit() / kPageSize;
  std::mt19937_64 random(11);
  const auto mixed = [&] {
    const uint64_t length = uint64_t{4096} << random() % 9;
    const uint64_t offset =
        random() % 64 == 0 ? random() % (64 * kMib) : random() % (4000 * kMib);
    world.play(event(0, offset, length));
  };
  for (int i = 0; i < 60'000 / kPatience; ++i) mixed();
  int asked = 0, given = 0;
  for (int i = 0; i < 8000 / kPatience; ++i) {
    mixed();
    if (engine.arena.free_pages() * 20 > pages) continue;
    const uint64_t block = 2 * kMib * (random() % 2000);
    if (world.file(0).index.next_present(block >> kPageShift,
                                         (block >> kPageShift) + 512) !=
        (block >> kPageShift) + 512) {
      continue;  // what is there already stays as it is
    }
    ++asked;
    world.play(event(0, block, 2 * kMib, Hint::kWillneed));
    const FolioId id = world.file(0).index.lookup(block >> kPageShift);
    given += id != kNoFolio && engine.arena.folio(id).pages() == 512;
  }
  MESSAGE(given, " of ", asked);
  CHECK(asked >= 1000 / kPatience);
  CHECK(given * 10 >= asked * 9);
}

TEST_CASE("what there is no index for is read uncached, and counted so") {
  constexpr uint32_t kFiles = 40'000;
  Trace trace;
  trace.files.assign(kFiles, {"", 4 * 4096 * 16});
  trace.descriptions = kFiles;
  for (uint32_t i = 0; i < kFiles; ++i) trace.events.push_back(event(i, 0, 10));
  SimOptions options;
  options.cache_bytes = 8 * kMib;
  const SimResult result = cli::simulate(trace, options);
  CHECK(result.counters.read_calls == kFiles);
  CHECK(result.uncached() > 0);
  CHECK(result.uncached() < 1);
}

TEST_CASE("of a part of a page no more is used than was read") {
  Trace trace;
  trace.files = {{"", 100}};
  trace.descriptions = 1;
  trace.events = {event(0, 0, 100)};
  CHECK(cli::simulate(trace, {}).over_fetch() == 0);
}
