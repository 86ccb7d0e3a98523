// SPDX-License-Identifier: MIT
// What only shared reaping can do wrong: leave a waiter asleep when the reaper
// leaves, or lose the reads of a thread that ends. Pipes serve as devices whose
// latency the test decides.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
#include <sched.h>

#include <thread>

#include "core/epoch.h"
#include "tests/unit/backend_fixture.h"

using namespace racache;
using namespace racache::test;

namespace {

// Until so many threads have gone to sleep on their words, or 10 s.
void await_sleepers(Backend& b, uint64_t count) {
  for (int i = 0; i < 10000 && uring_stats(b).sleeps < count; ++i) usleep(1000);
}
void await_reaper(Backend& b) {
  for (int i = 0; i < 10000 && uring_stats(b).reaps < 1; ++i) usleep(1000);
}

}  // namespace

TEST_CASE("a kick between the look and the sleep is not lost") {
  SleeperList list;
  std::atomic<uint32_t> word{Folio::kFilling | Folio::kWaiters};
  CHECK(list.empty());
  CHECK(!list.kick_one());
  const int place = list.add(word);
  const uint32_t seen = word.load();
  CHECK(list.kick_one());
  CHECK(!list.kick_one());  // and two do not cancel each other out
  CHECK(sleep_on(word, seen, kForgotten));  // false: it slept until the limit
  list.remove(place);
  CHECK(list.empty());
}

TEST_CASE("the reaper role is handed to a sleeper") {
  BackendPtr b(make("uring"));
  SlowRead first(*b), second(*b), third(*b);
  REQUIRE(first.read.submit(*b));
  REQUIRE(second.read.submit(*b));
  REQUIRE(third.read.submit(*b));
  Waiter reaper(*b, first.read.word);
  await_reaper(*b);
  Waiter sleeper(*b, second.read.word);
  await_sleepers(*b, 1);
  Waiter another(*b, third.read.word);
  await_sleepers(*b, 2);
  first.finish();
  CHECK(reaper.join() < kSoon);
  settle();
  second.finish();
  CHECK(sleeper.join() < kSoon);
  settle();
  third.finish();
  CHECK(another.join() < kSoon);
  CHECK(uring_stats(*b).kicks >= 2);
  CHECK(uring_stats(*b).rescues == 0);
}

TEST_CASE("who slept with nothing in flight is called to reap") {
  BackendPtr b(make("uring"));
  SlowRead slow(*b);
  Waiter sleeper(*b, slow.read.word);
  await_sleepers(*b, 1);
  REQUIRE(slow.read.submit(*b));  // and this thread never waits
  settle();
  slow.finish();
  CHECK(sleeper.join() < kSoon);
  CHECK(uring_stats(*b).kicks >= 1);
  CHECK(uring_stats(*b).rescues == 0);
}

TEST_CASE("quiesce() is for what this thread submitted before it asked") {
  REQUIRE(epoch::init());
  BackendPtr b(make("uring"));
  SlowRead mine(*b);
  REQUIRE(mine.read.submit(*b));
  const auto quiesce_ms = [&] {
    const SignalGuard signals;
    const uint64_t begin = sys::monotonic_ns();
    b->quiesce(*b);
    return (sys::monotonic_ns() - begin) / 1'000'000;
  };
  uint64_t others = kSoon;
  std::thread([&] { others = quiesce_ms(); }).join();
  CHECK(others < 50);  // of the 100 that it may take
  CHECK(quiesce_ms() >= 100);
  // The ring is never idle for 200 ms.
  std::vector<std::unique_ptr<SlowRead>> chain;
  for (int i = 0; i < 40; ++i) chain.push_back(std::make_unique<SlowRead>(*b));
  std::thread another([&] {
    const SlowRead* before = &mine;
    for (const auto& next : chain) {
      if (!next->read.submit(*b)) abort();
      before->finish();
      before = next.get();
      usleep(5000);
    }
    before->finish();
    const SignalGuard signals;
    for (const auto& next : chain) {
      b->wait(*b, next->read.word, Folio::kFilling);
    }
  });
  CHECK(quiesce_ms() < 90);
  another.join();
}

TEST_CASE("the reaper notices that its word was cleared by no completion") {
  BackendPtr b(make("uring"));
  SlowRead slow(*b);
  REQUIRE(slow.read.submit(*b));
  std::atomic<uint32_t> word{Folio::kFilling};
  Waiter reaper(*b, word);
  await_reaper(*b);
  Read::end(word);
  CHECK(reaper.join() < kSoon);
  slow.finish();
  slow.read.wait(*b);
}

TEST_CASE("more sleepers than the list holds") {
  BackendPtr b(make("uring"));
  constexpr size_t kMany = 90;
  std::vector<std::unique_ptr<SlowRead>> slow;
  std::vector<Waiter> waiters;
  for (size_t i = 0; i < kMany; ++i) {
    slow.push_back(std::make_unique<SlowRead>(*b));
    REQUIRE(slow.back()->read.submit(*b));
  }
  for (auto& s : slow) waiters.emplace_back(*b, s->read.word);
  settle();
  for (size_t i = 0; i < kMany; ++i) {
    slow[i * 7 % kMany]->finish();
    CHECK(waiters[i * 7 % kMany].join() < kSoon);
  }
  CHECK(uring_stats(*b).overflow > 0);
}

TEST_CASE("the end of the submitting thread cancels nothing") {
  test::File file;
  BackendPtr b(make("uring"));
  const int slot = b->attach(*b, file.fd);
  Buffer buffer(64 * 4096);
  std::vector<Read> reads(64);
  SlowRead slow(*b);
  std::thread([&] {
    for (unsigned i = 0; i < 64; ++i) {
      reads[i].prepare(slot, i * 4096, buffer.data() + i * 4096, 4096);
      reads[i].submit(*b);
    }
    slow.read.submit(*b);  // certain to be in flight when its thread ends
  }).join();
  for (Read& r : reads) {
    r.wait(*b);
    CHECK(r.result == 4096);
  }
  CHECK(buffer.holds(0, buffer.size()));
  Waiter waiter(*b, slow.read.word);
  settle();
  slow.finish();
  waiter.join();
  CHECK(slow.read.result == 8);
  CHECK(uring_stats(*b).retried >= 1);
}

TEST_CASE("polling ends waits without sleeping") {
  test::File file;
  BackendPtr b(make("uring", 5000000));
  const int slot = b->attach(*b, file.fd);
  // A spinning thread whose core was taken away goes to sleep, as it should;
  // on a busy machine that may happen to any of them.
  for (int i = 0; i < 50 || uring_stats(*b).polled == 0; ++i) {
    const UringStats before = uring_stats(*b);
    REQUIRE(reads_well(*b, slot));
    const UringStats after = uring_stats(*b);
    CHECK(after.polled + after.lost_core == after.polls);
    if (after.lost_core != before.lost_core) continue;
    CHECK(after.reaps + after.sleeps == before.reaps + before.sleeps);
  }
}

TEST_CASE("yielding ends waits without sleeping, whoever has the core") {
  cpu_set_t before, one;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  {
    test::File file;
    BackendPtr b(make("uring", 5000000));  // with one core nobody spins
    const int slot = b->attach(*b, file.fd);
    for (int i = 0; i < 50; ++i) CHECK(reads_well(*b, slot));
    const UringStats stats = uring_stats(*b);
    CHECK(stats.polls > 0);
    CHECK(stats.polled == stats.polls);
    CHECK(stats.reaps + stats.sleeps + stats.lost_core == 0);
  }
  REQUIRE(sched_setaffinity(0, sizeof before, &before) == 0);
}
