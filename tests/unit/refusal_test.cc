// SPDX-License-Identifier: MIT
// Every allocation of the engine refused in turn, once and for good, until a
// run meets no refusal: of folios, index leaves and tables, reads, mappings,
// and of whatever a start needs. Want of memory is rare, and each of its places
// is one that no other test comes to.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/fault_point.h"
#include "core/log.h"
#include "tests/unit/engine_fixture.h"

namespace racache {
namespace {

constexpr int64_t kTooMany = 5000;

EngineFixture::Options small() {
  EngineFixture::Options options;
  options.arena_bytes = 8 << 20;
  options.ops = 32;
  options.backend.content = EngineFixture::content;
  return options;
}

void read(EngineFixture& fixture, OpenStream& stream, uint64_t offset,
          size_t bytes, uint32_t number) {
  const uint64_t size = fixture.file(number).size;
  const uint64_t want = std::min<uint64_t>(bytes, size - offset);
  const cache::ReadResult r = fixture.read(stream, offset, bytes, number);
  CHECK(r.done <= want);
  CHECK(r.complete == (r.done == want));
  CHECK(fixture.right(offset, r.done, number));
}

// Some of everything that allocates. File 1 has a table of its own mapping.
void exercise(EngineFixture& fixture) {
  constexpr uint64_t kSizes[] = {200 * kPageSize + 77, uint64_t{5} << 30};
  for (uint32_t n = 0; n < 2; ++n) {
    if (!fixture.adopt(n, kSizes[n], 16, 32)) return;
    OpenStream stream{};
    fixture.open(stream, n);
    for (uint64_t at = 0; at < 60'000; at += 20'000) {
      read(fixture, stream, at, 20'000, n);
    }
    read(fixture, stream, kSizes[n] - 5000, 9000, n);
    cache::willneed(fixture.file(n), stream, 400'000, 200'000, -1);
    read(fixture, stream, 390'000, 30'000, n);
    cache::dontneed(fixture.file(n), 8192, 100'000);
    read(fixture, stream, 0, 50'000, n);
  }
}

void forget_all(EngineFixture& fixture) {
  for (uint32_t n = 0; n < 2; ++n) {
    if (cache::readable(fixture.file(n))) fixture.forget(n);
  }
}

// Whether the nth allocation was reached.
bool refuse_one(int64_t nth, bool for_good) {
  EngineFixture fixture(small());
  CAPTURE(nth);
  CAPTURE(for_good);
  fault::arm(nth, for_good);
  exercise(fixture);
  const bool reached = fault::reached();
  fault::disarm();
  forget_all(fixture);
  fixture.check_nothing_leaked();
  // With memory again all is as if nothing had been.
  REQUIRE(fixture.adopt(0, 100'000, 16, 32));
  OpenStream stream{};
  fixture.open(stream);
  CHECK(fixture.read(stream, 0, 100'000).complete);
  CHECK(fixture.right(0, 100'000));
  fixture.forget();
  fixture.check_nothing_leaked();
  return reached;
}

// Pages of address space. Asked for without libc, which would map buffers.
uint64_t mapped_pages() {
  char text[64] = {};
  const int fd = open("/proc/self/statm", O_RDONLY);
  const ssize_t got = ::read(fd, text, sizeof text - 1);
  close(fd);
  return got > 0 ? strtoull(text, nullptr, 10) : 0;
}

// A start is all or nothing, and can be tried again.
template <class Part, class Init>
int64_t refuse_parts_of(const Init& init) {
  for (int64_t nth = 1;; ++nth) {
    Part part{};
    const uint64_t before = mapped_pages();
    fault::arm(nth, false);
    const bool ok = static_cast<bool>(init(part));
    const bool reached = fault::reached();
    fault::disarm();
    const uint64_t after = mapped_pages();
    if (!ok) {
      CHECK(after == before);
      REQUIRE(init(part));
    }
    part.destroy();
    CHECK(mapped_pages() == before);
    if (!reached) return nth - 1;
  }
}

struct RealFile {
  std::string path = "refusal_test." + std::to_string(getpid());
  std::string bytes;
  RealFile() {
    for (size_t i = 0; i < 300'000; ++i) {
      bytes += static_cast<char>(EngineFixture::content(0, i));
    }
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    REQUIRE(write(fd, bytes.data(), bytes.size()) ==
            static_cast<ssize_t>(bytes.size()));
    fsync(fd);
    close(fd);
  }
  ~RealFile() { unlink(path.c_str()); }
};

// What is served is right; a null file, or a rest, is the kernel's.
bool served_right(const engine::Adopted& adopted, OpenStream& stream, int fd,
                  const std::string& bytes) {
  if (adopted.file == nullptr) return true;
  std::string buffer(70'000, '\0');
  bool right = true;
  for (uint64_t at = 0; at < bytes.size(); at += buffer.size()) {
    iovec iov{buffer.data(), buffer.size()};
    const cache::ReadResult r =
        cache::read(*adopted.file, stream, &iov, 1, at, fd);
    right = right && std::memcmp(buffer.data(), &bytes[at], r.done) == 0;
  }
  return right;
}

constexpr int kRight = 0, kWrong = 1, kNotReached = 2;

// In a child of its own, because an engine starts once in a process.
int start_and_read(const RealFile& real, int64_t nth, bool for_good,
                   IoMode io) {
  alarm(30);  // a hang is a death
  Config config;
  config.size_bytes = 16 << 20;
  config.io = io;
  engine::configure(config);
  OpenStream stream{};
  const int fd = open(real.path.c_str(), O_RDONLY);
  fault::arm(nth, for_good);
  engine::Adopted adopted = engine::adopt(fd, stream);
  bool right = served_right(adopted, stream, fd, real.bytes);
  const bool reached = fault::reached();
  fault::disarm();
  if (adopted.file == nullptr) adopted = engine::adopt(fd, stream);
  right = right && served_right(adopted, stream, fd, real.bytes);
  if (adopted.file != nullptr) {
    engine::release(*adopted.file, adopted.generation);
  }
  engine::let_go();
  return !right ? kWrong : reached ? kRight : kNotReached;
}

int in_child(const RealFile& real, int64_t nth, bool for_good, IoMode io) {
  fflush(stdout);  // or a sanitizer, at the child's _exit, writes it again
  const pid_t pid = fork();
  if (pid == 0) {
    log::set_level(LogLevel::kError);
    dup2(open("/dev/null", O_WRONLY), 2);
    _exit(start_and_read(real, nth, for_good, io));
  }
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

}  // namespace

TEST_CASE("each allocation of a running engine refused") {
  for (const bool for_good : {false, true}) {
    int64_t nth = 1;
    while (nth < kTooMany && refuse_one(nth, for_good)) ++nth;
    MESSAGE((nth - 1), " allocations refused");
    CHECK(nth > 50);
    CHECK(nth < kTooMany);
  }
}

TEST_CASE("each allocation of a part's start refused") {
  CHECK(refuse_parts_of<Arena>([](Arena& arena) {
          return arena.init(8 << 20, HugePages::kAuto).has_value();
        }) >= 3);
  CHECK(refuse_parts_of<Metadata>([](Metadata& metadata) {
          return metadata.init(1 << 20).has_value();
        }) >= 3);
  Arena arena;
  REQUIRE(arena.init(8 << 20, HugePages::kAuto));
  for (const EvictKind kind : {EvictKind::kS3Fifo, EvictKind::kLru}) {
    CHECK(refuse_parts_of<EvictionPolicy>([&](EvictionPolicy& policy) {
            return policy.init(kind, arena);
          }) >= (kind == EvictKind::kS3Fifo ? 2 : 1));
  }
  arena.destroy();
  CHECK(refuse_parts_of<OpPool>(
            [](OpPool& ops) { return ops.init(16).has_value(); }) >= 1);
}

TEST_CASE("each allocation of an engine's start and first reads refused") {
  const RealFile real;
  for (const IoMode io : {IoMode::kAuto, IoMode::kThreads}) {
    for (const bool for_good : {false, true}) {
      int64_t nth = 1;
      for (; nth < kTooMany; ++nth) {
        CAPTURE(nth);
        CAPTURE(for_good);
        const int outcome = in_child(real, nth, for_good, io);
        if (outcome == kNotReached) break;
        REQUIRE(outcome == kRight);
      }
      MESSAGE((nth - 1), " allocations refused");
      CHECK(nth > 20);
    }
  }
}

}  // namespace racache
