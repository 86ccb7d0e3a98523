// SPDX-License-Identifier: MIT
// The engine over devices that fail: errors on some blocks, on all, once; short
// reads; answers late and out of order; a queue that is full; a ring that is
// lost. Whatever the device does, bytes that the engine hands out are the
// file's, the rest is left to the kernel's call, nobody waits for ever, and at
// the end no memory and no read is unaccounted for.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
#include <fcntl.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <random>
#include <set>
#include <thread>

#include "tests/unit/engine_fixture.h"
#include "tests/unit/seed.h"

namespace racache {
namespace {

constexpr uint64_t kSize = 700 * kPageSize + 123;

// A device that does as it is told. Called under the fake's lock.
struct Device {
  std::function<void(const ReadOp&, FakeFate&)> mood;
  uint64_t asked = 0;

  static void script(void* user, const ReadOp& op, FakeFate& fate) {
    Device& device = *static_cast<Device*>(user);
    ++device.asked;
    if (device.mood) device.mood(op, fate);
  }
};

EngineFixture::Options options(Device& device) {
  EngineFixture::Options options;
  options.arena_bytes = 16 << 20;
  options.ops = 64;
  options.backend.order = FakeOrder::kRandom;
  options.backend.content = EngineFixture::content;
  options.backend.file_size = kSize;
  options.backend.script = Device::script;
  options.backend.script_user = &device;
  return options;
}

bool covers(const ReadOp& op, PageIndex page) {
  const uint64_t at = page << kPageShift;
  return at >= op.offset && at < op.offset + op.bytes;
}

struct World {
  Device device;
  EngineFixture fixture;
  OpenStream stream{};
  unsigned refused = 0;  // reads that were the kernel's to finish
  uint64_t lost_pages = 0;

  explicit World(unsigned capacity = 1024)
      : fixture([&] {
          EngineFixture::Options o = options(device);
          o.backend.capacity = capacity;
          return o;
        }()) {
    REQUIRE(fixture.adopt(0, kSize, 32, 64));
    fixture.open(stream);
  }
  ~World() {
    fixture.forget();
    fixture.check_nothing_leaked(lost_pages);
  }

  // A prefix of the truth, and the whole of it unless something failed.
  cache::ReadResult read(uint64_t offset, size_t bytes) {
    const uint64_t left = offset < kSize ? kSize - offset : 0;
    const uint64_t want = std::min<uint64_t>(bytes, left);
    const cache::ReadResult result = fixture.read(stream, offset, bytes);
    CHECK(result.done <= want);
    CHECK(result.complete == (result.done == want));
    CHECK(fixture.right(offset, result.done));
    refused += !result.complete;
    return result;
  }
  void read_all(size_t bytes) {
    for (uint64_t at = 0; at < kSize; at += bytes) read(at, bytes);
  }
  // The device is well again, and so is the cache.
  void recover() {
    device.mood = nullptr;
    fixture.settle();
    refused = 0;
    read_all(100'000);
    CHECK(refused == 0);
    const uint64_t asked = device.asked;
    read_all(30'000);
    CHECK(asked == device.asked);
  }
  void random_program(std::mt19937_64& random, int operations) {
    File& file = fixture.file();
    for (int i = 0; i < operations; ++i) {
      const uint64_t at = random() % (kSize + 5000);
      const uint64_t bytes = 1 + random() % 300'000;
      switch (random() % 8) {
        case 0:
          cache::willneed(file, stream, at, bytes, -1);
          break;
        case 1:
          cache::dontneed(file, at, bytes);
          break;
        case 2:
          cache::advise(file, stream,
                        random() % 2 ? POSIX_FADV_RANDOM : POSIX_FADV_NORMAL);
          break;
        case 3:
          fixture.settle();
          break;
        default:
          read(at, bytes);
      }
    }
  }
};

}  // namespace

TEST_CASE("blocks that cannot be read are the kernel's to report") {
  World world;
  const std::set<PageIndex> bad = {3, 200, 201, 699};
  world.device.mood = [&](const ReadOp& op, FakeFate& fate) {
    for (PageIndex page : bad) {
      if (covers(op, page)) fate.error = -EIO;
    }
  };
  for (size_t bytes : {4096u, 65536u, 1u << 20}) {
    world.read_all(bytes);
    for (PageIndex page : bad) {
      CHECK(world.read(page << kPageShift, 4096).done == 0);
      CHECK(world.fixture.file().index.lookup(page) == kNoFolio);
    }
  }
  CHECK(world.refused >= 3 * bad.size());
  world.recover();
}

// As after a siglongjmp out of a hit: nothing that is evicted comes free.
TEST_CASE("a thread that stays in its section does not slow down the others") {
  Device device;
  EngineFixture::Options small = options(device);
  constexpr uint64_t kLarge = uint64_t{64} << 20;
  small.arena_bytes = 8 << 20;
  small.backend.file_size = kLarge;
  EngineFixture fixture(small);
  REQUIRE(fixture.adopt(0, kLarge, 32, 32));
  OpenStream stream{};
  fixture.open(stream);
  std::atomic<int> step{0};
  std::thread jumper([&] {
    epoch::Section section(*epoch::self());
    step = 1;
    while (step != 2) usleep(1000);
  });
  while (step != 1) usleep(100);
  const auto begin = std::chrono::steady_clock::now();
  constexpr uint64_t kBytes = 70'000;
  uint64_t served = 0;
  for (uint64_t i = 0; i < 600; ++i) {
    const uint64_t at = i * 7919 * kPageSize % (kLarge - kBytes);
    const cache::ReadResult r = fixture.read(stream, at, kBytes);
    CHECK(fixture.right(at, r.done));
    served += r.done;
  }
  const auto took = std::chrono::steady_clock::now() - begin;
  CHECK(served >= 4 << 20);               // before it was full
  CHECK(took < std::chrono::seconds(2));  // of 600 times 20 ms
  step = 2;
  jumper.join();
  // And all is well again.
  fixture.engine().evictor.sweep(fixture.engine());
  CHECK(fixture.read(stream, kLarge / 2, kBytes).complete);
  CHECK(fixture.right(kLarge / 2, kBytes));
  fixture.forget();
  fixture.check_nothing_leaked();
}

TEST_CASE("a device that fails altogether is asked a few times a read") {
  World world;
  world.device.mood = [](const ReadOp&, FakeFate& fate) { fate.error = -EIO; };
  for (int i = 0; i < 100; ++i) {
    const uint64_t asked = world.device.asked;
    CHECK(world.read(static_cast<uint64_t>(i) * 16384, 16384).done == 0);
    CHECK(world.device.asked - asked <= 4);
  }
  CHECK(world.refused == 100);
  world.recover();
}

TEST_CASE("a single error is not seen at all, or once") {
  for (int error : {EIO, EAGAIN, EINTR, ENOMEM, ENODATA}) {
    for (uint64_t nth = 1; nth <= 12; ++nth) {
      World world;
      world.device.mood = [&](const ReadOp&, FakeFate& fate) {
        if (world.device.asked == nth) fate.error = -error;
      };
      world.read_all(50'000);
      CHECK(world.refused <= 1);
      world.recover();
    }
  }
}

TEST_CASE("short reads give what they brought and no more") {
  std::mt19937_64 random(1);
  for (int percent : {100, 30}) {
    World world;
    world.device.mood = [&](const ReadOp& op, FakeFate& fate) {
      if (static_cast<int>(random() % 100) < percent) {
        fate.bytes = random() % op.bytes;
      }
    };
    world.read_all(4096);
    world.read_all(200'000);
    world.random_program(random, 200);
    world.recover();
  }
}

TEST_CASE("late answers in any order are as good as prompt ones") {
  std::mt19937_64 random(2);
  World world;
  world.device.mood = [&](const ReadOp&, FakeFate& fate) {
    fate.latency = 1 + static_cast<unsigned>(random() % 300);
  };
  world.random_program(random, 500);
  world.read_all(77'777);
  CHECK(world.refused == 0);
  world.recover();
}

TEST_CASE("a full queue refuses, and what was refused is the kernel's") {
  for (unsigned capacity : {0u, 1u, 2u}) {
    std::mt19937_64 random(capacity);
    World world(capacity);
    world.read_all(300'000);
    world.random_program(random, 200);
    world.fixture.settle();
    const unsigned refused = world.refused;
    world.read_all(4096);  // at most two reads at a time: nothing to refuse
    if (capacity == 0) CHECK(world.refused - refused == pages_of(kSize));
    if (capacity == 2) CHECK(world.refused == refused);
  }
}

TEST_CASE("a lost ring or a refusal of direct I/O ends the file's caching") {
  for (int error : {ECANCELED, EOWNERDEAD, EINVAL}) {
    World world;
    world.read(0, 100'000);
    world.device.mood = [&](const ReadOp&, FakeFate& fate) {
      fate.error = -error;
    };
    CHECK_FALSE(world.read(400'000, 100'000).complete);
    CHECK_FALSE(cache::readable(world.fixture.file()));
    CHECK(world.read(0, 4096).done == 0);
    // Where a read of a dead ring may still put its bytes is never used again.
    if (error == EOWNERDEAD) world.lost_pages = 26;
  }
  World world;
  world.read(0, 10'000);
  fake_lose(world.fixture.backend());
  CHECK_FALSE(world.read(1'000'000, 10'000).complete);
}

TEST_CASE("random programs on a device with every fault") {
  const uint64_t seed = ::test_seed();
  CAPTURE(seed);
  for (uint64_t round = 0; round < 40; ++round) {
    std::mt19937_64 random(seed + round);
    World world(round % 3 == 0 ? 3 : 1024);
    world.device.mood = [&](const ReadOp& op, FakeFate& fate) {
      fate.latency = 1 + static_cast<unsigned>(random() % 9);
      if (random() % 5 == 0) fate.error = -EIO;
      if (random() % 5 == 0) fate.bytes = random() % op.bytes;
      if (covers(op, 100)) fate.error = -EIO;
    };
    world.random_program(random, 150);
    world.recover();
  }
}

TEST_CASE("many readers on a failing device all get an answer") {
  const uint64_t seed = ::test_seed();
  CAPTURE(seed);
  World world(8);
  std::mt19937_64 moods(seed);
  world.device.mood = [&](const ReadOp& op, FakeFate& fate) {
    fate.latency = 1 + static_cast<unsigned>(moods() % 9);
    if (moods() % 4 == 0) fate.error = -EIO;
    if (moods() % 4 == 0) fate.bytes = moods() % op.bytes;
  };
  fake_start_helper(world.fixture.backend(), 50);
  std::atomic<int> wrong{0}, served{0}, refused{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(seed + t);
      OpenStream own{};
      own.stream.ra_pages = 32;
      std::vector<char> buffer(60'000);
      for (int i = 0; i < 300; ++i) {
        const uint64_t at = random() % kSize;
        iovec iov{buffer.data(), 1 + random() % buffer.size()};
        const uint64_t want = std::min<uint64_t>(iov.iov_len, kSize - at);
        File& file = world.fixture.file();
        const cache::ReadResult r =
            cache::read(file, t % 2 ? own : world.stream, &iov, 1, at, -1);
        for (size_t k = 0; k < r.done; ++k) {
          wrong += static_cast<uint8_t>(buffer[k]) !=
                   EngineFixture::content(0, at + k);
        }
        wrong += r.complete != (r.done == want);
        ++(r.complete ? served : refused);
        if (i % 20 == 0) cache::dontneed(file, 0, 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(served > 0);
  CHECK(refused > 0);
  while (fake_in_flight(world.fixture.backend()) != 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace racache
