// SPDX-License-Identifier: MIT
// The life of a page frame, in every interleaving of two readers, a device, an
// evictor and a dontneed: filled, waited for, read, killed, left in limbo and
// filled again with another page; and each precaution shown to be needed, by
// leaving it out.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <string>

#include "tests/unit/explorer.h"
#include "tests/unit/folio_world.h"

namespace racache {
namespace {

using namespace folio_world;

struct Setting {
  uint8_t pages, failures;
  bool drops;
};
constexpr Setting kSettings[] = {
    {1, 0, false}, {1, 2, false}, {2, 1, false}, {2, 0, true}};

World beginning(Omit omit, const Setting& setting) {
  World world{};
  world.omit = omit;
  world.is_free = 1;
  world.now = 1;
  world.failures = setting.failures;
  world.drop_at = setting.drops ? 0 : 99;
  for (uint8_t n = 0; n < kReaders; ++n) {
    world.readers[n].page = n % setting.pages;
  }
  return world;
}

struct Seen {
  unsigned served_both = 0, kernel = 0;
};

Exploration explore_all(Omit omit, Seen* seen) {
  Exploration sum;
  for (const Setting& setting : kSettings) {
    const Exploration one =
        explore(beginning(omit, setting), [&](const World& world) {
          seen->served_both +=
              world.readers[0].served && world.readers[1].served;
          seen->kernel += world.readers[0].kernel;
        });
    sum.states += one.states;
    sum.ends += one.ends;
    sum.wrong = one.wrong;
    if (one.wrong != nullptr) break;
  }
  return sum;
}

}  // namespace

TEST_CASE("a frame's life in every order") {
  Seen seen;
  const Exploration all = explore_all(kNothing, &seen);
  CHECK(std::string(all.wrong != nullptr ? all.wrong : "") == "");
  MESSAGE(all.states, " states, ", all.ends, " ends");
  CHECK(all.states > 10'000);
  CHECK(seen.served_both > 0);
  CHECK(seen.kernel > 0);
}

TEST_CASE("each precaution is needed") {
  for (const Omit omit : {kGrace, kReload, kIndexCheck, kWakeFailure}) {
    CAPTURE(omit);
    Seen seen;
    CHECK(explore_all(omit, &seen).wrong != nullptr);
  }
}

}  // namespace racache
