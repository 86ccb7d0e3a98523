// SPDX-License-Identifier: MIT
// Each transition of the state word must win or lose exactly once, whoever
// races for it. The whole cache's safety rests on these few functions.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "core/folio.h"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

using racache::Folio;

namespace {

uint32_t word_of(const Folio& folio) { return folio.word.load(); }

// How many of `count` threads that start together see `f` return true.
template <class F>
int winners(int count, F f) {
  std::atomic<int> ready{0};
  std::atomic<int> won{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&] {
      ready.fetch_add(1);
      while (ready.load() < count) std::this_thread::yield();
      if (f()) won.fetch_add(1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return won.load();
}

}  // namespace

TEST_CASE("begin_fill sets the place, order, mark and a new generation") {
  Folio folio = {};
  folio.word.store(Folio::kGenerationMask | Folio::kFree | 9);
  folio.begin_fill(7, 1000, 3, true);
  CHECK(folio.file == 7);
  CHECK(folio.index == 1000);
  CHECK(folio.pages() == 8);
  CHECK((word_of(folio) & Folio::kGenerationMask) == 0);  // wrapped round
  CHECK((word_of(folio) & ~Folio::kGenerationMask) ==
        (3 | Folio::kFilling | Folio::kReadahead | Folio::kMark));
  const uint32_t before = word_of(folio);
  folio.begin_fill(7, 1000, 0, false);
  CHECK((word_of(folio) & Folio::kMark) == 0);
  CHECK(word_of(folio) - before < 2 * Folio::kGenerationOne);
  CHECK((word_of(folio) & Folio::kGenerationMask) ==
        (before & Folio::kGenerationMask) + Folio::kGenerationOne);
}

TEST_CASE("end_fill tells whether someone waits, and how it went") {
  for (const bool ok : {true, false}) {
    for (const bool waited : {true, false}) {
      Folio folio = {};
      folio.begin_fill(1, 0, 0, false);
      if (waited) folio.word.fetch_or(Folio::kWaiters);
      CHECK(folio.end_fill(ok) == waited);
      CHECK((word_of(folio) & Folio::kFilling) == 0);
      CHECK(((word_of(folio) & Folio::kUptodate) != 0) == ok);
      CHECK(((word_of(folio) & Folio::kFailed) != 0) == !ok);
    }
  }
}

TEST_CASE("a range of a folio lies in the quarters it touches") {
  CHECK(Folio::parts_of(0, 1000, 4096 - 1000) == 15);
  CHECK(Folio::parts_of(0, 1024, 1024) == 2);
  CHECK(Folio::parts_of(1, 4095, 2) == 6);
  CHECK(Folio::parts_of(2, 3 * 4096, 4096) == 8);
  CHECK(Folio::parts_of(9, 0, 2 << 20) == 15);
  CHECK(Folio::parts_of(9, (512 << 10) - 1, 2) == 3);
  CHECK(Folio::parts_of(9, 1536 << 10, 1) == 8);
}

TEST_CASE("the use of a range is that of whole pages and of quarters") {
  CHECK(Folio::use_of(0, 1, 1, false) == 15);
  CHECK(Folio::use_of(0, 1, 1, true) == 0);
  CHECK(Folio::use_of(1, 4095, 1, false) == 3);
  CHECK(Folio::use_of(1, 4095, 2, false) == 15);
  CHECK(Folio::use_of(1, 4095, 2, true) == 12);
  CHECK(Folio::use_of(2, 4096, 8192, false) == 6);
  CHECK(Folio::use_of(9, 0, 2 << 20, false) == 15);
  CHECK(Folio::use_of(9, 5, 2 << 19, true) == 6);
  for (unsigned order = 0; order < 10; ++order) {
    const uint32_t word = Folio::kUptodate | order;
    const size_t size = size_t{4096} << order;
    const uint32_t use = Folio::use_of(order, size / 2, 7, false);
    CHECK_FALSE(Folio::well_known(word, size / 2, 7));
    CHECK_FALSE(Folio::well_known(word | use << Folio::kUsedShift, 0, 1));
    CHECK(Folio::well_known(word | use << Folio::kAgainShift, size / 2, 7));
  }
}

TEST_CASE("only an up-to-date, unreferenced folio can be killed, once") {
  Folio folio = {};
  CHECK_FALSE(folio.try_kill());  // free
  folio.begin_fill(1, 0, 2, false);
  CHECK_FALSE(folio.try_kill());  // filling
  folio.end_fill(true);
  folio.word.fetch_or(Folio::kAgain);
  CHECK_FALSE(folio.try_kill());
  CHECK_FALSE((word_of(folio) & Folio::kDead) != 0);
  folio.word.fetch_and(~Folio::kAgain);
  CHECK(folio.try_kill());
  CHECK_FALSE(folio.try_kill());
  CHECK(Folio::order_of(word_of(folio)) == 2);

  Folio failed = {};
  failed.begin_fill(1, 0, 0, false);
  failed.end_fill(false);
  CHECK_FALSE(failed.try_kill());
  CHECK_FALSE(failed.kill());
}

TEST_CASE("kill does not ask for references") {
  Folio folio = {};
  folio.begin_fill(1, 0, 0, false);
  CHECK_FALSE(folio.kill());
  folio.end_fill(true);
  folio.word.fetch_or(Folio::kAgain);
  CHECK(folio.kill());
  CHECK_FALSE(folio.kill());
}

TEST_CASE("in_use is every state but free") {
  Folio folio = {};
  CHECK_FALSE(Folio::in_use(word_of(folio)));
  CHECK_FALSE(Folio::in_use(Folio::kFree | Folio::kKick | 0xabcd0000u | 9));
  folio.begin_fill(1, 0, 0, false);
  CHECK(Folio::in_use(word_of(folio)));
  folio.abandon_fill();
  CHECK_FALSE(Folio::in_use(word_of(folio)));
  CHECK((word_of(folio) & Folio::kGenerationMask) ==
        Folio::kGenerationOne);  // the generation stays
  CHECK(Folio::in_use(Folio::kFailed));
  CHECK(Folio::in_use(Folio::kDead));
}

TEST_CASE("a race for a mark, or for a kill, has one winner") {
  for (int round = 0; round < 200; ++round) {
    Folio folio = {};
    folio.begin_fill(1, 0, 0, true);
    folio.end_fill(true);
    CHECK(winners(3, [&] { return folio.try_clear_mark(); }) == 1);
    CHECK(winners(3, [&] { return folio.try_kill(); }) == 1);
  }
}

TEST_CASE("a reference taken before the kill saves the folio") {
  for (int round = 0; round < 200; ++round) {
    Folio folio = {};
    folio.begin_fill(1, 0, 0, false);
    folio.end_fill(true);
    std::atomic<int> next{0};
    const int killed = winners(2, [&] {
      if (next.fetch_add(1) == 0) return folio.try_kill();
      folio.word.fetch_or(Folio::kAgain);
      return false;
    });
    const uint32_t word = word_of(folio);
    CHECK((word & Folio::kAgain) != 0);
    CHECK(((word & Folio::kDead) != 0) == (killed == 1));
  }
}
