// SPDX-License-Identifier: MIT
// Two page frames, one of which is emptied into the other, in every
// interleaving with two readers and a writer: nothing is lost, and nobody gets
// other bytes than the file's. Each precaution is shown to be needed, by
// leaving it out.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <string>

#include "tests/unit/explorer.h"
#include "tests/unit/take_world.h"

namespace racache {
namespace {

using namespace take_world;

// One frame holds page 0, the other is free; the second reader reads `other`.
World beginning(Omit omit, uint8_t other) {
  World world{};
  world.omit = omit;
  world.now = 1;
  world.frames[0].word = Folio::kUptodate;
  world.frames[0].content = World::bytes_of(0, 0);
  world.frames[1].is_free = 1;
  world.entry[0] = 1;
  world.readers[1].page = other;
  return world;
}

bool noticed(Omit omit, uint8_t other) {
  const auto nothing = [](const World&) {};
  const Exploration all = explore(beginning(omit, other), nothing);
  if (all.wrong != nullptr) MESSAGE(std::string(all.wrong));
  return all.wrong != nullptr;
}

}  // namespace

TEST_CASE("a frame emptied into another, in every order") {
  for (const uint8_t other : {0, 1}) {
    unsigned served = 0, moved = 0;
    const Exploration all =
        explore(beginning(kNothing, other), [&](const World& world) {
          served += world.readers[0].served && world.readers[1].served;
          for (const Frame& frame : world.frames) {
            moved += (frame.word & Folio::kMain) != 0;
          }
        });
    CHECK(std::string(all.wrong != nullptr ? all.wrong : "") == "");
    MESSAGE(all.states, " states, ", all.ends, " ends");
    CHECK(all.states > 10'000);
    CHECK(served > 0);
    CHECK(moved > 0);
  }
}

TEST_CASE("each precaution is needed") {
  for (const Omit omit : {kSection, kKillResult, kGrace, kLock}) {
    CAPTURE(omit);
    const bool missed = noticed(omit, 0) || noticed(omit, 1);
    CHECK(missed);
  }
}

}  // namespace racache
