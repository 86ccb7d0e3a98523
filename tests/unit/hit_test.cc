// SPDX-License-Identifier: MIT
// The plain hit answers before anything else is asked, so it must decline
// whatever is not exactly that: each of its conditions is taken away here by
// itself. And it tells others little: what it keeps to itself must still reach
// readahead and the statistics.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <thread>

#include "engine_fixture.h"

using namespace racache;

namespace {

constexpr uint64_t kSize = (4 << 20) + 100;

struct HitFixture : EngineFixture {
  OpenStream stream{};

  static Options options() {
    Options o;
    o.backend.content = content;
    return o;
  }
  HitFixture() : EngineFixture(options()) {
    REQUIRE(adopt(0, kSize, 32, 256));
    open(stream);
    fill(0, kSize);
  }
  // All of it there, read, and its marks met.
  void fill(uint64_t from, uint64_t to) {
    for (int pass = 0; pass < 2; ++pass) {
      for (uint64_t at = from; at < to; at += 4096) read(stream, at, 4096);
      settle();
    }
  }
  size_t hit(uint64_t offset, size_t bytes, char* to, OpenStream& by) {
    ThreadSlot& slot = *epoch::self();
    const epoch::Section section(slot);
    return cache::Plain::hit(file(), by, slot, to, bytes, offset);
  }
  size_t hit(uint64_t offset, size_t bytes) {
    std::string to(bytes, '\xee');
    const size_t got = hit(offset, bytes, to.data(), stream);
    for (size_t i = 0; i < bytes; ++i) {
      const uint8_t expected = i < got ? content(0, offset + i) : 0xee;
      REQUIRE(static_cast<uint8_t>(to[i]) == expected);
    }
    return got;
  }
  size_t hit_next(std::atomic<int64_t>& position, size_t bytes) {
    std::string to(bytes, '\xee');
    ThreadSlot& slot = *epoch::self();
    const epoch::Section section(slot);
    return cache::Plain::hit_next(file(), stream, slot, to.data(), bytes,
                                  position);
  }
  // The slow way, where there are no bytes: it just takes the stream over.
  void miss_nothing() {
    char byte;
    iovec iov{&byte, 1};
    CHECK(cache::read(file(), stream, &iov, 1, kSize, -1).complete);
  }
  FolioId folio_at(uint64_t offset) {
    return file().index.lookup(offset >> kPageShift);
  }
  Folio& at(uint64_t offset) { return engine().arena.folio(folio_at(offset)); }
};

}  // namespace

TEST_CASE_FIXTURE(HitFixture, "what is there is copied, and no more") {
  CHECK(hit(0, 1) == 1);
  CHECK(hit(4096, 4096) == 4096);
  CHECK(hit(8191, 1) == 1);
  CHECK(hit(kSize - 100, 4096) == 100);
  CHECK(hit(kSize - 1, 2) == 1);
  CHECK(hit(kSize, 1) == 0);
  CHECK(hit(kSize + (1 << 30), 1) == 0);
  CHECK(hit(static_cast<uint64_t>(-1), 1) == 0);
  CHECK(hit(uint64_t{1} << 63, 1) == 0);
}

TEST_CASE_FIXTURE(HitFixture, "more than one folio is not plain") {
  const uint64_t size = at(0).pages() << kPageShift;
  CHECK(hit(size - 10, 10) == 10);
  CHECK(hit(size - 10, 11) == 0);
}

TEST_CASE_FIXTURE(HitFixture, "each flag of the folio counts") {
  std::atomic<uint32_t>& word = at(0).word;
  const uint32_t plain = word.load();
  CHECK(hit(0, 100) == 100);
  const auto from_elsewhere = [this] {
    REQUIRE(hit(3 << 20, 100) == 100);
    return hit(0, 100);
  };
  for (const uint32_t missing : {Folio::kUptodate, Folio::kAgain}) {
    word = plain & ~missing;
    CHECK(from_elsewhere() == 0);
  }
  for (const uint32_t extra : {Folio::kMark, Folio::kReadahead}) {
    word = plain | extra;
    CHECK(hit(0, 100) == 0);
  }
  word = plain;
  CHECK(hit(0, 100) == 100);
}

// What is not plain goes the way that tells eviction of it.
TEST_CASE_FIXTURE(HitFixture, "a quarter that was read again is enough") {
  std::atomic<uint32_t>& word = at(1 << 20).word;
  const unsigned order = Folio::order_of(word);
  REQUIRE(order >= 2);
  const uint64_t size = kPageSize << order;
  const uint64_t first = at(1 << 20).index * kPageSize;
  word = (word & ~Folio::kAgain) | 2u << Folio::kAgainShift;  // the second
  const auto from_elsewhere = [this](uint64_t offset, size_t bytes) {
    REQUIRE(hit(3 << 20, 100) == 100);
    return hit(offset, bytes);
  };
  CHECK(from_elsewhere(first + size / 4, size / 4) == size / 4);
  CHECK(from_elsewhere(first + size / 2 - 1, 1) == 1);
  CHECK(from_elsewhere(first + size / 4 - 1, 2) == 0);
  CHECK(from_elsewhere(first + size / 2 - 1, 2) == 0);
  CHECK(from_elsewhere(first + size - 1, 1) == 0);
  CHECK(from_elsewhere(first + size / 4, size) == 0);  // and of the next folio
}

TEST_CASE_FIXTURE(HitFixture, "a reader in the middle of a quarter is known") {
  std::atomic<uint32_t>& word = at(1 << 20).word;
  const unsigned order = Folio::order_of(word);
  REQUIRE(order >= 2);
  const uint64_t quarter = kPageSize << (order - 2);
  const uint64_t first = at(1 << 20).index * kPageSize;
  word &= ~Folio::kAgain;
  const auto after = [&](uint64_t end, uint64_t offset, size_t bytes) {
    stream.stream.prev_pos = static_cast<int64_t>(end);
    return hit(offset, bytes);
  };
  CHECK(after(first, first, 100) == 0);  // it begins
  CHECK(after(first + 100, first + 100, 100) == 100);
  CHECK(after(first + 1, first + quarter - 1, 1) == 1);
  CHECK(after(first + 100, first + quarter - 1, 2) == 0);  // the next one too
  CHECK(after(first + quarter, first + quarter, 100) == 0);
  CHECK(after(first + quarter + 1, first, 100) == 0);
  word |= Folio::kReadahead;
  CHECK(after(first + 100, first + 100, 100) == 0);
}

TEST_CASE_FIXTURE(HitFixture, "a file whose lease is gone has no hits") {
  std::atomic<int64_t> position{0};
  for (const File::State state :
       {File::State::kBroken, File::State::kDormant, File::State::kFree}) {
    file().state = state;
    CHECK(hit(0, 100) == 0);
    CHECK(hit_next(position, 100) == 0);
    CHECK(position == 0);
  }
  file().state = File::State::kLeased;
  CHECK(hit(0, 100) == 100);
}

TEST_CASE_FIXTURE(HitFixture, "what was dropped or evicted is not found") {
  CHECK(hit(1 << 20, 100) == 100);
  cache::dontneed(file(), 0, 2 << 20);
  CHECK(hit(1 << 20, 100) == 0);
  CHECK(hit(3 << 20, 100) == 100);
  const uint64_t all = engine().arena.block_count() * kBlockPages;
  CHECK(engine().evictor.reclaim(engine(), all));
  CHECK(hit(3 << 20, 100) == 0);
}

TEST_CASE_FIXTURE(HitFixture, "a reader's folio outlives its eviction") {
  ThreadSlot& slot = *epoch::self();
  const epoch::Section section(slot);
  const FolioId id = folio_at(0);
  const std::byte* bytes = engine().arena.memory(id);
  std::thread([&] {
    cache::dontneed(file(), 0, 0);
    for (int i = 0; i < 3; ++i) engine().evictor.sweep(engine());
    // As much as there is: what was not freed cannot be among it.
    while (engine().arena.allocate(0) != kNoFolio) {
    }
  }).join();
  CHECK((engine().arena.folio(id).word.load() & Folio::kDead) != 0);
  CHECK(static_cast<uint8_t>(*bytes) == content(0, 0));
}

TEST_CASE_FIXTURE(HitFixture, "verification sees every read") {
  engine().config.verify = 1;
  REQUIRE(adopt(1, kSize, 32, 256));
  CHECK(file(1).plain_size == 0);
  file().plain_size = 0;
  CHECK(hit(0, 100) == 0);
}

TEST_CASE_FIXTURE(HitFixture, "the position moves by what was read") {
  std::atomic<int64_t> position{0};
  CHECK(hit_next(position, 1000) == 1000);
  CHECK(hit_next(position, 24) == 24);
  CHECK(position == 1024);
  position = static_cast<int64_t>(kSize) - 10;
  CHECK(hit_next(position, 1000) == 10);
  CHECK(position == static_cast<int64_t>(kSize));
  CHECK(hit_next(position, 1000) == 0);
  for (const int64_t form : {INT64_MIN, INT64_MIN | int64_t{1} << 61, -1L}) {
    position = form;
    CHECK(hit_next(position, 1000) == 0);
    CHECK(position == form);
  }
}

TEST_CASE_FIXTURE(HitFixture, "hits reach the statistics") {
  Snapshot before{}, after{};
  engine::fill_snapshot(engine(), before);
  file().hits = 0;
  for (int i = 0; i < 10; ++i) REQUIRE(hit(4096, 50) == 50);
  engine::fill_snapshot(engine(), after);
  CHECK(after.counters.hits - before.counters.hits == 10);
  CHECK(after.counters.read_calls - before.counters.read_calls == 10);
  CHECK(after.counters.lookups - before.counters.lookups == 10);
  CHECK(after.counters.hit_bytes - before.counters.hit_bytes == 500);
  CHECK(after.counters.read_bytes - before.counters.read_bytes == 500);
  CHECK(file().hits == 10);
}

TEST_CASE_FIXTURE(HitFixture, "readahead knows where the last hit ended") {
  OpenStream other{};
  open(other);
  char to[200];
  REQUIRE(hit(0, 100, to, stream) == 100);
  REQUIRE(hit(500, 100, to, other) == 100);  // streams by turns
  REQUIRE(hit(100, 100, to, stream) == 100);
  CHECK(stream.stream.prev_pos == 200);
  CHECK(other.stream.prev_pos == 600);
}

TEST_CASE_FIXTURE(HitFixture,
                  "another thread's last hit is known at its miss") {
  char to[200];
  cache::dontneed(file(), 2 << 20, 0);
  REQUIRE(hit(0, 100, to, stream) == 100);
  std::thread([&] {
    REQUIRE(hit(8192, 100, to, stream) == 100);
    CHECK(stream.stream.prev_pos == 100);
    miss_nothing();
    CHECK(stream.stream.prev_pos == 8292);
    REQUIRE(hit(100, 10, to, stream) == 10);
    CHECK(stream.stream.prev_pos == 110);
  }).join();
}

TEST_CASE_FIXTURE(HitFixture, "a new description does not inherit a position") {
  char to[200];
  REQUIRE(hit(0, 100, to, stream) == 100);
  std::thread([&] {
    REQUIRE(hit(8192, 100, to, stream) == 100);  // noted by this thread
    open(stream);                                // its memory is used again
    miss_nothing();
    CHECK(stream.stream.prev_pos == -1);
  }).join();
}
