// SPDX-License-Identifier: MIT
// Two folios that overlap, or free memory that is lost, would corrupt or starve
// the cache in silence. So the allocator is compared with a model at random,
// and its promises to others (fork, limits, the clock hand) are tried one by
// one.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "core/arena.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "tests/unit/seed.h"

using namespace racache;

namespace {

constexpr uint64_t kBlocks = 8;
constexpr uint64_t kPages = kBlocks * kBlockPages;

class Fixture {
 public:
  explicit Fixture(uint64_t blocks = kBlocks) {
    REQUIRE(arena.init(blocks * kBlockSize, HugePages::kAuto));
  }
  ~Fixture() { arena.destroy(); }

  Arena arena;
};

// What is allocated: first frame -> order, and whether its fill has begun.
struct Held {
  unsigned order;
  bool begun;
};
using Model = std::map<FolioId, Held>;

uint64_t pages_held(const Model& model) {
  uint64_t pages = 0;
  for (const auto& [id, held] : model) pages += uint64_t{1} << held.order;
  return pages;
}

void check_disjoint(const Model& model, FolioId id, unsigned order) {
  const FolioId end = id + (FolioId{1} << order);
  REQUIRE((id - 1) % (1u << order) == 0);
  REQUIRE(end - 1 <= kPages);
  const auto above = model.lower_bound(id);
  if (above != model.end()) REQUIRE(end <= above->first);
  if (above == model.begin()) return;
  const auto below = std::prev(above);
  REQUIRE(below->first + (FolioId{1} << below->second.order) <= id);
}

// The clock hand sees exactly the folios in use, in order.
void check_walk(const Arena& arena, const Model& model) {
  FolioId id = arena.next_in_use(1);
  for (const auto& [expected, held] : model) {
    if (!held.begun) continue;
    REQUIRE(id == expected);
    id = arena.next_in_use(id + (FolioId{1} << held.order));
  }
  REQUIRE(id == kNoFolio);
}

void release_all(Arena& arena, Model& model) {
  for (const auto& [id, held] : model) arena.release(id, held.order);
  model.clear();
}

uint64_t address_space_bytes() {
  char text[64] = {};
  const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  REQUIRE(read(fd, text, sizeof text - 1) > 0);
  close(fd);
  return std::strtoull(text, nullptr, 10) *
         static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

int init_within(Arena& arena, size_t bytes, uint64_t address_space) {
  rlimit old;
  REQUIRE(getrlimit(RLIMIT_AS, &old) == 0);
  const rlimit tight = {address_space, old.rlim_max};
  REQUIRE(setrlimit(RLIMIT_AS, &tight) == 0);
  const Expected<void> made = arena.init(bytes, HugePages::kAuto);
  REQUIRE(setrlimit(RLIMIT_AS, &old) == 0);
  return made ? 0 : static_cast<int>(made.error());
}

bool is_mapped(const void* page) {
  unsigned char resident;
  return mincore(const_cast<void*>(page), 4096, &resident) == 0;
}

}  // namespace

TEST_CASE("an empty arena costs nothing and offers everything") {
  Fixture f;
  CHECK(f.arena.limit() == kBlocks * kBlockSize);
  CHECK(f.arena.block_count() == kBlocks);
  CHECK(f.arena.free_pages() == kPages);
  CHECK(f.arena.largest_free_order() == 9);
  CHECK(f.arena.fresh_blocks() == kBlocks);
  CHECK(f.arena.prepared_blocks() == 0);
  CHECK(f.arena.metadata_bytes() == 0);
  CHECK(f.arena.next_in_use(1) == kNoFolio);
  CHECK(reinterpret_cast<uintptr_t>(f.arena.memory(1)) % kBlockSize == 0);
}

TEST_CASE("less than a block is a block, and a rest is left out") {
  Arena arena;
  REQUIRE(arena.init(1, HugePages::kNever));
  CHECK(arena.block_count() == 1);
  arena.destroy();
  REQUIRE(arena.init(3 * kBlockSize - 1, HugePages::kAlways));
  CHECK(arena.block_count() == 2);
  arena.destroy();
}

TEST_CASE("an order that does not exist is refused") {
  Fixture f;
  CHECK(f.arena.allocate(kMaxOrder + 1) == kNoFolio);
  CHECK(f.arena.allocate(31) == kNoFolio);
  CHECK(f.arena.free_pages() == kPages);
}

TEST_CASE("random use agrees with a model") {
  Fixture f;
  Random random;
  Model model;
  for (int step = 0; step < 60000; ++step) {
    const bool filling_up = (step / 4000) % 2 == 0;
    if (random.one_in(500) && f.arena.fresh_blocks() != 0) {
      REQUIRE(f.arena.prepare_block());
    }
    if (model.empty() || random.below(10) < (filling_up ? 7 : 3)) {
      const unsigned order = static_cast<unsigned>(
          random.one_in(20) ? random.below(10) : random.below(6));
      const int largest = f.arena.largest_free_order();
      const FolioId id = f.arena.allocate(order);
      REQUIRE((id != kNoFolio) == (largest >= static_cast<int>(order)));
      if (id == kNoFolio) continue;
      check_disjoint(model, id, order);
      const bool begin = !random.one_in(8);
      Folio& folio = f.arena.folio(id);
      REQUIRE_FALSE(Folio::in_use(folio.word.load()));
      if (begin) folio.begin_fill(1, 0, order, false);
      if (begin && random.one_in(2)) folio.end_fill(true);
      model[id] = {order, begin};
    } else {
      auto it =
          model.lower_bound(static_cast<FolioId>(1 + random.below(kPages)));
      if (it == model.end()) it = model.begin();
      f.arena.release(it->first, it->second.order);
      model.erase(it);
    }
    REQUIRE(f.arena.free_pages() == kPages - pages_held(model));
    if (step % 97 == 0) check_walk(f.arena, model);
  }
  release_all(f.arena, model);
  check_walk(f.arena, model);
  // All merged again: every block can be had whole.
  for (uint64_t i = 0; i < kBlocks; ++i) {
    const FolioId id = f.arena.allocate(kMaxOrder);
    REQUIRE(id != kNoFolio);
    check_disjoint(model, id, kMaxOrder);
    model[id] = {kMaxOrder, false};
  }
  CHECK(f.arena.allocate(0) == kNoFolio);
  CHECK(f.arena.largest_free_order() == -1);
  CHECK(f.arena.free_pages() == 0);
}

TEST_CASE("used memory comes before prepared, prepared before fresh") {
  Fixture f;
  const FolioId first = f.arena.allocate(9);
  CHECK(f.arena.fresh_blocks() == kBlocks - 1);
  REQUIRE(f.arena.prepare_block());
  CHECK(f.arena.prepared_blocks() == 1);
  CHECK(f.arena.fresh_blocks() == kBlocks - 2);
  CHECK(f.arena.free_pages() == kPages - kBlockPages);
  f.arena.release(first, 9);
  CHECK(f.arena.allocate(9) == first);
  const FolioId second = f.arena.allocate(9);
  CHECK(f.arena.prepared_blocks() == 0);
  CHECK(f.arena.fresh_blocks() == kBlocks - 2);
  CHECK(f.arena.allocate(9) != second);
  CHECK(f.arena.fresh_blocks() == kBlocks - 3);
}

TEST_CASE("a prepared block is resident, and the last one ends it") {
  Fixture f(2);
  REQUIRE(f.arena.prepare_block());
  unsigned char resident[kBlockPages] = {};
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  REQUIRE(mincore(f.arena.memory(1), kBlockSize, resident) == 0);
  for (size_t i = 0; i < kBlockSize / page; ++i) REQUIRE((resident[i] & 1));
  CHECK(f.arena.prepare_block());
  CHECK_FALSE(f.arena.prepare_block());
  CHECK(f.arena.prepared_blocks() == 2);
  CHECK(f.arena.next_in_use(1) == kNoFolio);
  CHECK(f.arena.allocate(0) != kNoFolio);
}

TEST_CASE("the generation survives splits and merges") {
  Fixture f(1);
  for (uint32_t i = 1; i <= 100; ++i) {
    const FolioId id = f.arena.allocate(i % 2 == 0 ? 9 : 0);
    REQUIRE(id == 1);
    f.arena.folio(id).begin_fill(1, 0, i % 2 == 0 ? 9 : 0, true);
    f.arena.folio(id).end_fill(true);
    CHECK((f.arena.folio(id).word.load() / Folio::kGenerationOne) == i);
    f.arena.release(id, i % 2 == 0 ? 9 : 0);
    CHECK((f.arena.folio(id).word.load() / Folio::kGenerationOne) == i);
    CHECK_FALSE(Folio::in_use(f.arena.folio(id).word.load()));
  }
}

TEST_CASE("an address-space limit is ENOMEM and leaves nothing behind") {
  Arena arena;
  const size_t bytes = size_t{1} << 30;
  // Warm up, so that what is counted below is the arena's alone.
  CHECK(init_within(arena, bytes, address_space_bytes() + (1 << 20)) == ENOMEM);
  const uint64_t before = address_space_bytes();
  CHECK(init_within(arena, bytes, before + bytes / 2) == ENOMEM);
  CHECK(address_space_bytes() == before);
  // Room for the memory, not for the folios that describe it.
  CHECK(init_within(arena, bytes, before + bytes + kBlockSize + 65536) ==
        ENOMEM);
  CHECK(address_space_bytes() == before);
  CHECK(arena.limit() == 0);
  REQUIRE(init_within(arena, bytes, before + bytes + (bytes >> 6)) == 0);
  CHECK(arena.allocate(9) == 1);
  arena.destroy();
  CHECK(address_space_bytes() == before);
}

TEST_CASE("a forked child has neither memory nor folios") {
  Fixture f;
  const FolioId id = f.arena.allocate(0);
  f.arena.memory(id)[0] = std::byte{1};
  REQUIRE(is_mapped(f.arena.memory(id)));
  const auto folio_page = reinterpret_cast<const void*>(
      round_down(reinterpret_cast<uint64_t>(&f.arena.folio(id)), 4096));
  REQUIRE(is_mapped(folio_page));
  const pid_t child = fork();
  if (child == 0) {
    _exit((is_mapped(f.arena.memory(id)) ? 1 : 0) |
          (is_mapped(folio_page) ? 2 : 0));
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("threads never share memory, and the hand may walk meanwhile") {
  Fixture f;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> clashes{0};
  std::atomic<uint64_t> met{0};
  auto user = [&](uint64_t number) {
    Random random(number);
    std::vector<std::pair<FolioId, unsigned>> mine;
    // Long enough for the walker to have had its turn.
    for (int step = 0; step < 20000 || (met.load() < 100 && step < 100000000);
         ++step) {
      if (mine.size() < 40 && random.one_in(2)) {
        const unsigned order = static_cast<unsigned>(random.below(10));
        const FolioId id = f.arena.allocate(order);
        if (id == kNoFolio) continue;
        f.arena.folio(id).begin_fill(static_cast<uint32_t>(number), id, order,
                                     false);
        f.arena.folio(id).end_fill(true);
        std::memcpy(f.arena.memory(id), &number, sizeof number);
        mine.emplace_back(id, order);
      } else if (!mine.empty()) {
        std::swap(mine[random.below(mine.size())], mine.back());
        const auto [id, order] = mine.back();
        mine.pop_back();
        if (std::memcmp(f.arena.memory(id), &number, sizeof number) != 0 ||
            f.arena.folio(id).file != number) {
          clashes.fetch_add(1);
        }
        f.arena.release(id, order);
      }
    }
    for (const auto& [id, order] : mine) f.arena.release(id, order);
  };
  std::thread walker([&] {
    while (!stop.load()) {
      for (FolioId id = 1; (id = f.arena.next_in_use(id)) != kNoFolio; ++id) {
        met.fetch_add(1, std::memory_order_relaxed);
      }
    }
  });
  std::thread preparer([&] {
    while (f.arena.prepare_block()) std::this_thread::yield();
  });
  std::thread other([&] { user(1); });
  user(2);
  other.join();
  preparer.join();
  stop.store(true);
  walker.join();
  CHECK(clashes.load() == 0);
  CHECK(met.load() >= 100);
  CHECK(f.arena.free_pages() == kPages);
  CHECK(f.arena.largest_free_order() == 9);
}
