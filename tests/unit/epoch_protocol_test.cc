// SPDX-License-Identifier: MIT
// The epoch protocol (core/epoch.cc), step by step, in every interleaving of
// two readers and two reclaimers, with the readers' stores held back in store
// buffers for as long as a CPU may. A stress test meets the one order in a
// million that matters only by luck; here each is met, and each step that the
// argument in core/epoch.cc relies on is shown to be needed.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>

#include "tests/unit/explorer.h"

namespace racache {
namespace {

constexpr int kReaders = 2, kObjects = 2, kBuffer = 4;

// What is left out, to see that it is missed.
enum Omit : uint8_t {
  kNothing,
  kBarrier,        // no membarrier before the scan
  kUnpublishLate,  // the stamp is taken before the index is changed
  kScanEarly,      // the scan's bound is read after the scan
};

struct Reader {
  uint8_t at, sections, epoch, in_use;  // in_use: object + 1
  uint8_t stores[kBuffer];              // to its slot, oldest first
  uint8_t held;                         // of them
};
struct Reclaimer {
  uint8_t at, stamp, bound, oldest, tries;
};

// Threads: readers, then their store buffers, then one reclaimer an object.
struct World {
  static constexpr int kThreads = 2 * kReaders + kObjects;
  uint8_t omit, now, settled;
  uint8_t sections[kReaders];
  uint8_t slot[kReaders];
  uint8_t published[kObjects], reused[kObjects];
  Reader readers[kReaders];
  Reclaimer reclaimers[kObjects];

  bool step(int thread) {
    if (thread < kReaders) return read(readers[thread], thread);
    if (thread < 2 * kReaders) return drain(thread - kReaders);
    return reclaim(reclaimers[thread - 2 * kReaders], thread - 2 * kReaders);
  }
  const char* wrong() const {
    for (const Reader& r : readers) {
      if (r.in_use != 0 && reused[r.in_use - 1]) return "reused while in use";
    }
    return nullptr;
  }
  const char* wrong_end() const {
    for (int r = 0; r < kReaders; ++r) {
      if (readers[r].sections != sections[r]) return "a reader is stuck";
    }
    return nullptr;
  }

 private:
  void store(Reader& r, uint8_t value) { r.stores[r.held++] = value; }
  bool drain(int reader) {
    Reader& r = readers[reader];
    if (r.held == 0) return false;
    slot[reader] = r.stores[0];
    for (int i = 1; i < kBuffer; ++i) r.stores[i - 1] = r.stores[i];
    r.stores[kBuffer - 1] = 0;
    --r.held;
    return true;
  }

  // A section reads one object: the first section the reader's own number, the
  // next the other.
  bool read(Reader& r, int number) {
    if (r.sections == sections[number] || r.held == kBuffer) return false;
    const int object = (number + r.sections) % kObjects;
    switch (r.at++) {
      case 0:
        r.epoch = now;
        return true;
      case 1:
        store(r, r.epoch);
        return true;
      case 2:  // found is as good as in use
        r.in_use = published[object] ? static_cast<uint8_t>(object + 1) : 0;
        return true;
      case 3:
        r.in_use = 0;
        return true;
      default:
        store(r, 0);
        ++r.sections;
        r.at = r.epoch = 0;
        return true;
    }
  }

  void unpublish(int object) { published[object] = 0; }
  void take_stamp(Reclaimer& c) { c.stamp = now++; }
  bool again(Reclaimer& c) {
    constexpr int kPatience = 2;
    c.at = ++c.tries == kPatience ? 99 : 2;
    c.bound = c.oldest = 0;
    return true;
  }

  // retire(), then passed() until it says yes.
  bool reclaim(Reclaimer& c, int object) {
    const bool late = omit == kUnpublishLate;
    switch (c.at++) {
      case 0:
        late ? take_stamp(c) : unpublish(object);
        return true;
      case 1:
        late ? unpublish(object) : take_stamp(c);
        return true;
      case 2:
        if (c.stamp <= settled) c.at = 90;
        return true;
      case 3:
        c.bound = omit == kScanEarly ? 255 : now;
        return true;
      case 4:
        for (int r = 0; omit != kBarrier && r < kReaders; ++r) {
          while (drain(r)) {
          }
        }
        c.oldest = c.bound;
        return true;
      case 5:
      case 6: {
        const uint8_t epoch = slot[c.at - 6];
        if (epoch != 0 && epoch < c.oldest) c.oldest = epoch;
        return true;
      }
      case 7:
        if (omit == kScanEarly && c.oldest == 255) c.oldest = now;
        settled = std::max<uint8_t>(settled, c.oldest - 1);
        if (c.stamp >= c.oldest) return again(c);
        c.at = 90;
        return true;
      case 90:
        reused[object] = 1;
        c.at = 99;
        return true;
      default:
        c.at = 99;
        return false;
    }
  }
};

World beginning(Omit omit) {
  World world{};
  world.omit = omit;
  world.sections[0] = 2;  // so that one section's end meets the next's begin
  world.sections[1] = 1;
  world.now = 1;
  world.published[0] = world.published[1] = 1;
  return world;
}

}  // namespace

TEST_CASE("nothing is reused while a section may use it") {
  unsigned both_reused = 0, neither = 0;
  const Exploration all = explore(beginning(kNothing), [&](const World& world) {
    both_reused += world.reused[0] && world.reused[1];
    neither += !world.reused[0] && !world.reused[1];
  });
  CHECK(all.wrong == nullptr);
  MESSAGE(all.states, " states");
  CHECK(all.states > 10'000);
  CHECK(both_reused > 0);
  CHECK(neither > 0);
}

TEST_CASE("each part of the protocol is needed") {
  for (const Omit omit : {kBarrier, kUnpublishLate, kScanEarly}) {
    CAPTURE(omit);
    const Exploration all = explore(beginning(omit), [](const World&) {});
    CHECK(all.wrong != nullptr);
  }
}

}  // namespace racache
