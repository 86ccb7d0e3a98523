// SPDX-License-Identifier: MIT
// A waiter that polls where it should sleep takes a core from someone; one that
// sleeps where it should poll is late. What is learnt is tested with waits of
// known length.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "core/poll_policy.h"

#include <doctest/doctest.h>

#include <array>

using namespace racache;
using Way = PollPolicy::Way;

namespace {

struct Lengths {
  uint64_t sleep, spin, yield;
  uint64_t of(Way way) const {
    return way == Way::kSleep ? sleep : way == Way::kSpin ? spin : yield;
  }
};

// How often each way is chosen in the last half of `waits` waits.
std::array<int, 3> chosen(PollPolicy& policy, const Lengths& lengths,
                          unsigned waiters, int waits = 40000) {
  std::array<int, 3> count{};
  for (int i = 0; i < waits; ++i) {
    const auto choice = policy.choose(0, waiters, 1);
    if (i >= waits / 2) ++count[static_cast<size_t>(choice.way)];
    policy.learn(choice, lengths.of(choice.way));
  }
  return count;
}

}  // namespace

TEST_CASE("0 never polls, N polls for N microseconds") {
  PollPolicy never;
  never.init(0, 8);
  PollPolicy fixed;
  fixed.init(70, 8);
  for (int i = 0; i < 1000; ++i) {
    CHECK(never.choose(0, 1, 1).way == Way::kSleep);
    const auto choice = fixed.choose(0, 1, 1);
    CHECK(choice.way == Way::kSpin);
    CHECK(choice.ns == 70000);
    CHECK(fixed.choose(0, 8, 1).way == Way::kYield);
  }
}

TEST_CASE("auto learns the way that ends waits soonest, with few trials") {
  PollPolicy a;
  a.init(-1, 2);
  CHECK(chosen(a, {100000, 30000, 50000}, 1)[1] > 18000);
  PollPolicy b;
  b.init(-1, 2);
  CHECK(chosen(b, {100000, 50000, 30000}, 1)[2] > 18000);
  PollPolicy c;
  c.init(-1, 2);
  CHECK(chosen(c, {18000, 25000, 25000}, 1)[0] > 18000);
}

TEST_CASE("auto sleeps unless polling is clearly better") {
  PollPolicy policy;
  policy.init(-1, 2);
  CHECK(chosen(policy, {30000, 28000, 28000}, 1)[0] > 18000);
}

TEST_CASE("auto changes its mind when the device changes") {
  PollPolicy policy;
  policy.init(-1, 2);
  CHECK(chosen(policy, {100000, 30000, 50000}, 1)[1] > 18000);
  CHECK(chosen(policy, {20000, 30000, 30000}, 1)[0] > 18000);
}

TEST_CASE("a slow device is waited for asleep") {
  PollPolicy policy;
  policy.init(-1, 2);
  const auto count = chosen(policy, {5000000, 5200000, 5200000}, 1);
  CHECK(count[1] + count[2] < 400);
}

TEST_CASE("nobody spins while the cores are as few as the waiters") {
  PollPolicy policy;
  policy.init(-1, 2);
  const auto count = chosen(policy, {30000, 10000, 20000}, 2);
  CHECK(count[1] == 0);
  CHECK(count[2] > 18000);
  PollPolicy slow;
  slow.init(-1, 2);
  CHECK(chosen(slow, {500000, 500000, 500000}, 8)[0] > 16000);
}

TEST_CASE("one core is never kept from the others") {
  PollPolicy policy;
  policy.init(-1, 1);
  CHECK(chosen(policy, {100000, 10000, 10000}, 1)[0] == 20000);
}

TEST_CASE("who lost the core does not spin for a while") {
  PollPolicy policy;
  policy.init(-1, 4);
  CHECK(chosen(policy, {100000, 10000, 50000}, 1)[1] > 18000);
  policy.lost_core(1000);
  int spins = 0;
  for (int i = 0; i < 200; ++i) {
    spins += policy.choose(0, 1, 1000 + i).way == Way::kSpin;
  }
  CHECK(spins == 0);
  CHECK(chosen(policy, {100000, 10000, 50000}, 1, 2000)[0] > 0);
}

TEST_CASE("small and large folios are learnt apart") {
  PollPolicy policy;
  policy.init(-1, 2);
  CHECK(chosen(policy, {18000, 25000, 25000}, 1)[0] > 18000);
  int spins = 0;
  for (int i = 0; i < 8000; ++i) {
    const auto choice = policy.choose(9, 1, 1);
    spins += i >= 4000 && choice.way == Way::kSpin;
    policy.learn(choice, choice.way == Way::kSpin ? 60000 : 120000);
  }
  CHECK(spins > 3500);
}
