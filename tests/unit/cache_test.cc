// SPDX-License-Identifier: MIT
// The engine end to end, without the interposer: a real file on a disk file
// system is adopted, read, hinted, changed by others, closed and unlinked.
// Every byte is compared with the kernel's own pread.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "core/cache.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/engine.h"

using namespace racache;

namespace {

// A file of random bytes in the current directory, removed at the end.
struct TestFile {
  std::string path;
  std::string bytes;
  explicit TestFile(size_t size, unsigned seed = 1) {
    path = "cache_test." + std::to_string(getpid()) + "." +
           std::to_string(size) + "." + std::to_string(seed);
    std::mt19937_64 random(seed);
    bytes.resize(size);
    for (size_t i = 0; i < size; i += 8) {
      const uint64_t x = random();
      std::memcpy(&bytes[i], &x, std::min<size_t>(8, size - i));
    }
    write_all(bytes);
    forget();
  }
  void write_all(const std::string& content) const {
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    REQUIRE(fd >= 0);
    REQUIRE(write(fd, content.data(), content.size()) ==
            static_cast<ssize_t>(content.size()));
    fsync(fd);
    close(fd);
  }
  // Out of the kernel's page cache, so that the device is read.
  void forget() const {
    const int fd = open(path.c_str(), O_RDONLY);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
  }
  ~TestFile() { unlink(path.c_str()); }
};

void start() {
  static bool done = false;
  if (done) return;
  done = true;
  REQUIRE(epoch::init());
  Config config;
  config.size_bytes = 64 << 20;
  if (const char* io = std::getenv("CACHE_TEST_IO")) {
    config.io =
        std::strcmp(io, "threads") == 0 ? IoMode::kThreads : IoMode::kUring;
  }
  engine::configure(config);
}

// One description of a file, adopted.
struct Reader {
  int fd;
  OpenStream stream{};
  engine::Adopted adopted;
  explicit Reader(const std::string& path) {
    start();
    fd = open(path.c_str(), O_RDONLY);
    REQUIRE(fd >= 0);
    adopted = engine::adopt(fd, stream);
  }
  ~Reader() {
    if (adopted.file != nullptr) {
      engine::release(*adopted.file, adopted.generation);
    }
    close(fd);
  }
  std::string read(uint64_t offset, size_t n) {
    std::string out(n, '\0');
    iovec iov{out.data(), n};
    cache::ReadResult r{};
    {
      epoch::Section section(*epoch::self());
      r = cache::read_hit(*adopted.file, stream, &iov, 1, offset);
    }
    if (!r.complete) {
      r = cache::read(*adopted.file, stream, &iov, 1, offset, fd, r.done);
    }
    REQUIRE(r.complete);
    out.resize(r.done);
    return out;
  }
};

Counters counters() {
  Snapshot s{};
  engine::fill_snapshot(*engine::current(), s);
  return s.counters;
}

}  // namespace

TEST_CASE("sequential, strided and random reads give the file's bytes") {
  TestFile f(9'000'001);
  Reader r(f.path);
  REQUIRE(r.adopted.file != nullptr);
  for (size_t bs : {size_t{4096}, size_t{70'001}, size_t{1} << 20}) {
    for (uint64_t o = 0; o < f.bytes.size(); o += bs) {
      REQUIRE(r.read(o, bs) == f.bytes.substr(o, bs));
    }
  }
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    const uint64_t o = random() % f.bytes.size();
    const size_t n = random() % 300'000;
    REQUIRE(r.read(o, n) == f.bytes.substr(o, n));
  }
  CHECK(r.read(f.bytes.size(), 10).empty());
  CHECK(r.read(f.bytes.size() + (1 << 20), 10).empty());
}

TEST_CASE("the second pass makes no device read") {
  TestFile f(8 << 20, 2);
  Reader r(f.path);
  for (uint64_t o = 0; o < f.bytes.size(); o += 65536) r.read(o, 65536);
  const Counters before = counters();
  for (uint64_t o = 0; o < f.bytes.size(); o += 65536) {
    REQUIRE(r.read(o, 65536) == f.bytes.substr(o, 65536));
  }
  const Counters after = counters();
  CHECK(after.device_bytes == before.device_bytes);
  CHECK(after.hits - before.hits == 128);
}

TEST_CASE(
    "who was in the way of its own writes has its reads ahead submitted") {
  TestFile f(16 << 20);
  Reader r(f.path);
  REQUIRE(r.adopted.file != nullptr);
  ThreadSlot& slot = *epoch::self();
  constexpr size_t kStep = 64 << 10;
  uint64_t at = 0;
  const auto read_some = [&](uint64_t end) {
    int submitted = 0;
    for (; at < end; at += kStep) {
      REQUIRE(r.read(at, kStep) == f.bytes.substr(at, kStep));
      if (!engine::interruptible()) continue;
      ++submitted;
      engine::quiesce();
    }
    return submitted;
  };
  slot.relays = false;
  const bool ring = engine::ring_fd() >= 0;
  CHECK((read_some(4 << 20) > 0) == ring);  // at least the first window
  CHECK(slot.relays == ring);
  const Counters before = counters();
  const int of_many = read_some(f.bytes.size());
  const Counters after = counters();
  CHECK(after.async_windows > before.async_windows);
  // Only what it had to wait for and nobody had submitted yet.
  const uint64_t waits = after.wait_count - before.wait_count;
  CHECK(static_cast<uint64_t>(of_many) <= waits);
  slot.relays = false;
}

TEST_CASE("a hint brings the whole range, in large folios, once") {
  TestFile f(24 << 20, 3);
  Reader r(f.path);
  const Counters before = counters();
  cache::willneed(*r.adopted.file, r.stream, 0, 0, r.fd);
  for (int i = 0; i < 500; ++i) {
    usleep(2000);
    if (counters().inserted_by_order[9] - before.inserted_by_order[9] == 12) {
      break;
    }
  }
  for (uint64_t o = 0; o < f.bytes.size(); o += 1 << 20) {
    REQUIRE(r.read(o, 1 << 20) == f.bytes.substr(o, 1 << 20));
  }
  const Counters after = counters();
  CHECK(after.inserted_by_order[9] - before.inserted_by_order[9] == 12);
  CHECK(after.device_bytes - before.device_bytes == f.bytes.size());
}

TEST_CASE("a writer is let in at once and what it wrote is seen") {
  TestFile f(1 << 20, 4);
  Reader r(f.path);
  REQUIRE(r.read(0, 1000) == f.bytes.substr(0, 1000));
  const auto begin = std::chrono::steady_clock::now();
  const int w = open(f.path.c_str(), O_WRONLY);
  const auto held = std::chrono::steady_clock::now() - begin;
  CHECK(held < std::chrono::milliseconds(200));
  CHECK_FALSE(cache::readable(*r.adopted.file));
  REQUIRE(pwrite(w, "new", 3, 0) == 3);
  {
    Reader late(f.path);  // a writer has it open
    CHECK(late.adopted.file == nullptr);
    CHECK(late.adopted.reason == Reason::kWriter);
    CHECK(late.adopted.retry);
  }
  close(w);
  Reader again(f.path);
  REQUIRE(again.adopted.file != nullptr);
  CHECK(again.read(0, 3) == "new");
}

TEST_CASE("eviction keeps memory bounded and bytes right") {
  TestFile f(200 << 20, 5);
  Reader r(f.path);
  for (uint64_t o = 0; o < f.bytes.size(); o += 1 << 20) {
    REQUIRE(std::memcmp(r.read(o, 1 << 20).data(), &f.bytes[o], 1 << 20) == 0);
  }
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    const uint64_t o = random() % (f.bytes.size() - 5000);
    REQUIRE(r.read(o, 5000) == f.bytes.substr(o, 5000));
  }
  CHECK(counters().evicted > 0);
}

TEST_CASE("many threads on one description and on their own") {
  TestFile f(96 << 20, 6);
  Reader shared(f.path);
  std::atomic<int> bad{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      Reader own(f.path);
      Reader& r = t % 2 == 0 ? shared : own;
      std::mt19937 random(t);
      std::string out(200'000, '\0');
      for (int i = 0; i < 300; ++i) {
        const uint64_t o = random() % f.bytes.size();
        const size_t n = random() % out.size();
        iovec iov{out.data(), n};
        const cache::ReadResult res =
            cache::read(*r.adopted.file, r.stream, &iov, 1, o, r.fd);
        const size_t want = std::min<size_t>(n, f.bytes.size() - o);
        if (res.complete &&
            (res.done != want || std::memcmp(out.data(), &f.bytes[o], want))) {
          ++bad;
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(bad == 0);
}

TEST_CASE("a closed file stays warm if unchanged, is read anew if changed") {
  TestFile f(4 << 20, 7);
  usleep(50'000);  // its ctime must not be too fresh to be trusted
  {
    Reader r(f.path);
    r.read(0, f.bytes.size());
  }
  usleep(1'700'000);
  const Counters before = counters();
  {
    Reader r(f.path);
    REQUIRE(r.read(0, f.bytes.size()) == f.bytes);
  }
  CHECK(counters().device_bytes == before.device_bytes);
  usleep(1'700'000);
  f.bytes[12345] ^= 1;
  const int w = open(f.path.c_str(), O_WRONLY);
  REQUIRE(pwrite(w, &f.bytes[12345], 1, 12345) == 1);
  close(w);
  Reader r(f.path);
  REQUIRE(r.read(0, f.bytes.size()) == f.bytes);
}

TEST_CASE("the forked child finds no engine and starts its own") {
  TestFile f(1 << 20, 8);
  Reader r(f.path);
  r.read(0, 1000);
  const uint32_t parent = engine::generation();
  const pid_t pid = fork();
  if (pid == 0) {
    bool ok = engine::generation() == 0;
    OpenStream stream{};
    const int fd = open(f.path.c_str(), O_RDONLY);
    const engine::Adopted a = engine::adopt(fd, stream);
    ok = ok && a.file != nullptr && a.generation != parent;
    std::string out(5000, '\0');
    iovec iov{out.data(), out.size()};
    if (ok) {
      const cache::ReadResult res =
          cache::read(*a.file, stream, &iov, 1, 77, fd);
      ok = res.complete && out == f.bytes.substr(77, 5000);
    }
    _exit(ok ? 0 : 1);
  }
  int status;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  CHECK(status == 0);
  CHECK(engine::generation() == parent);
}
