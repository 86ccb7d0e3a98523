// SPDX-License-Identifier: MIT
// RACACHE_VERIFY: the kernel's file is a memfd here, with the same bytes as the
// device; then one of the cache's is changed, and the program must not see it.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "core/verify.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "engine_fixture.h"

using namespace racache;

namespace {

constexpr uint64_t kSize = (1 << 20) + 100;

struct VerifyFixture : EngineFixture {
  OpenStream stream{};
  int kernel = memfd_create("kernel", MFD_CLOEXEC);

  static Options options() {
    Options o;
    o.backend.content = content;
    return o;
  }
  VerifyFixture() : EngineFixture(options()) {
    engine().config.verify = 1;
    REQUIRE(adopt(0, kSize, 32, 256));
    open(stream);
    std::string bytes(kSize, '\0');
    for (size_t i = 0; i < kSize; ++i) bytes[i] = static_cast<char>(byte(i));
    REQUIRE(pwrite(kernel, bytes.data(), kSize, 0) == ssize_t{kSize});
    for (uint64_t at = 0; at < kSize; at += 65536) get(at, 65536);
    counters() = {};
  }
  ~VerifyFixture() { close(kernel); }

  static uint8_t byte(uint64_t offset) { return content(0, offset); }

  // Reads into three buffers, as the slow half of a read does.
  cache::ReadResult get(uint64_t offset, size_t bytes) {
    buffer.assign(bytes, '\xee');
    char* at = buffer.data();
    const iovec iov[] = {
        {at, bytes / 3}, {at, 0}, {at + bytes / 3, bytes - bytes / 3}};
    return cache::read(file(), stream, iov, 3, offset, kernel, 0);
  }
  // Changes what the cache holds.
  void corrupt(uint64_t offset) {
    const epoch::Section section(*epoch::self());
    const FolioId id = file().index.lookup(offset >> kPageShift);
    REQUIRE(id != kNoFolio);
    const uint64_t begin = uint64_t{engine().arena.folio(id).index}
                           << kPageShift;
    engine().arena.memory(id)[offset - begin] ^= std::byte{0xff};
  }
  // The read is left to the kernel as a whole.
  static bool declined(const cache::ReadResult& r) {
    return r.done == 0 && !r.complete;
  }
  std::string buffer;
};

}  // namespace

TEST_CASE_FIXTURE(VerifyFixture, "what is right is compared and stays") {
  for (uint64_t at = 0; at < kSize; at += 4096) {
    const cache::ReadResult r = get(at, 4096);
    REQUIRE(r.complete);
    REQUIRE(r.done == std::min<uint64_t>(4096, kSize - at));
  }
  CHECK(counters().verified == pages_of(kSize));
  CHECK(counters().verify_failures == 0);
  CHECK(file().readable());
}

TEST_CASE_FIXTURE(VerifyFixture, "one wrong byte, wherever it is") {
  for (const uint64_t place : {0u, 1365u, 1366u, 4095u, 4096u, 12287u}) {
    CAPTURE(place);
    counters() = {};
    corrupt(65536 + place);
    CHECK(declined(get(65536, 12288)));
    CHECK(counters().verify_failures == 1);
    CHECK_FALSE(file().readable());
    // From now on nothing is taken from the cache.
    CHECK(declined(get(0, 4096)));
    CHECK(counters().verify_failures == 1);
    corrupt(65536 + place);
    file().state.store(File::State::kLeased);
  }
}

TEST_CASE_FIXTURE(VerifyFixture, "a byte beside what is read is no matter") {
  corrupt(65535);
  corrupt(65536 + 12288);
  CHECK(get(65536, 12288).complete);
  CHECK(counters().verify_failures == 0);
}

TEST_CASE_FIXTURE(VerifyFixture, "every Nth read is compared") {
  engine().config.verify = 3;
  engine().verify_tick.store(1);
  corrupt(8192);
  CHECK(get(8192, 4096).complete);
  CHECK(get(8192, 4096).complete);
  CHECK(counters().verified == 0);
  CHECK(declined(get(8192, 4096)));
  CHECK(counters().verified == 1);
  CHECK(counters().verify_failures == 1);
}

TEST_CASE_FIXTURE(VerifyFixture, "a file that is shorter than was believed") {
  REQUIRE(ftruncate(kernel, kSize - 1) == 0);
  CHECK(get(0, 4096).complete);
  CHECK(declined(get(kSize - 50, 4096)));
  CHECK(counters().verify_failures == 1);
}

TEST_CASE_FIXTURE(VerifyFixture, "an error is the kernel's to report") {
  const int good = kernel;
  kernel = -1;
  CHECK(declined(get(0, 4096)));
  kernel = good;
  CHECK(counters().verify_failures == 0);
  CHECK(file().readable());
}

TEST_CASE_FIXTURE(VerifyFixture, "after a writer a difference means nothing") {
  corrupt(0);
  std::string out(4096, '\0');
  const iovec iov{out.data(), out.size()};
  file().state.store(File::State::kBroken);
  CHECK(declined(verify::check(file(), &iov, 1, 0, kernel, {4096, true})));
  CHECK(counters().verify_failures == 0);
}
