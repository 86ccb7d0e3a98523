// SPDX-License-Identifier: MIT
// The default policy by itself: every folio that came in can be found again,
// and what is on probation is counted exactly, whatever happens to it.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "core/eviction_policy.h"

#include <doctest/doctest.h>
#include <vector>

using namespace racache;

namespace {

class World {
 public:
  explicit World(size_t bytes) {
    REQUIRE(arena.init(bytes, HugePages::kNever));
    REQUIRE(policy.init(EvictKind::kS3Fifo, arena));
  }
  ~World() {
    policy.destroy();
    arena.destroy();
  }
  uint64_t frames() const { return arena.block_count() * kBlockPages; }

  // One page of its own.
  FolioId admit() {
    const FolioId id = arena.allocate(0);
    if (id == kNoFolio) return id;
    const PageIndex page = next_page_++;
    arena.folio(id).begin_fill(1, page, 0, false,
                               policy.traits(1, page, 0, false));
    policy.admitted(id);
    return id;
  }
  FolioId admit_filled() {
    const FolioId id = admit();
    if (id == kNoFolio) return id;
    arena.folio(id).end_fill(true);
    arena.folio(id).word.fetch_and(~Folio::kReadahead);
    return id;
  }
  Victim next() {
    uint64_t budget = 4 * frames();
    return policy.next(&budget);
  }
  void take(FolioId id) {
    REQUIRE(arena.folio(id).kill());
    policy.gone(arena.folio(id).word);
  }

  Arena arena;
  EvictionPolicy policy;

 private:
  PageIndex next_page_ = 0;
};

constexpr size_t kMib = 1 << 20;

}  // namespace

TEST_CASE("it is the quota that ends probation, in caches of every size") {
  for (const size_t bytes : {8 * kMib, 32 * kMib, 120 * kMib, 300 * kMib}) {
    CAPTURE(bytes);
    World world(bytes);
    const uint64_t quarter = world.frames() / 4;
    const uint64_t count = quarter < 4096 ? quarter : 4096;
    for (uint64_t i = 0; i <= count; ++i) world.admit_filled();
    CHECK(world.policy.probation_pages() == count + 1);
  }
}

TEST_CASE("a victim that could not be taken is found again") {
  World world(8 * kMib);
  std::vector<FolioId> in;
  for (int i = 0; i < 1024; ++i) in.push_back(world.admit_filled());
  const Victim victim = world.next();
  REQUIRE(victim.id == in[0]);
  // Others came in meanwhile, until the queue is full.
  while (world.policy.probation_pages() < 1200) {
    const uint64_t before = world.policy.probation_pages();
    in.push_back(world.admit_filled());
    if (world.policy.probation_pages() == before) break;
  }
  world.policy.put_back(victim.id);
  size_t found = 0;
  for (Victim v; (v = world.next()).id != kNoFolio; ++found) world.take(v.id);
  CHECK(found == in.size());
  CHECK(world.policy.probation_pages() == 0);
}

TEST_CASE("a failed fill is taken off once") {
  World world(8 * kMib);
  const FolioId failed = world.admit();
  world.arena.folio(failed).end_fill(false);
  world.policy.gone(world.arena.folio(failed).word);
  CHECK(world.policy.probation_pages() == 0);
  // The queue overflows, and lets its oldest go.
  std::vector<FolioId> in;
  for (FolioId id; (id = world.admit_filled()) != kNoFolio;) in.push_back(id);
  for (Victim v; (v = world.next()).id != kNoFolio;) world.take(v.id);
  CHECK(world.policy.probation_pages() == 0);
}
