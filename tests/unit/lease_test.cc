// SPDX-License-Identifier: MIT
// What the kernel's page cache holds is counted in pages of the CPU, which are
// not everywhere as large as ours.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "core/lease.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <string>

using namespace racache;

namespace {

constexpr uint64_t kSmall = 4096, kLarge = 65536;

// A file on a disk whose pages come into the page cache one by one.
struct CachedFile {
  std::string path = "lease_test." + std::to_string(getpid());
  std::string bytes;
  int fd;

  explicit CachedFile(size_t size) : bytes(size, 'x') {
    fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
    REQUIRE(fd >= 0);
    REQUIRE(write(fd, bytes.data(), size) == static_cast<ssize_t>(size));
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  }
  ~CachedFile() {
    close(fd);
    unlink(path.c_str());
  }
  CachedFile(const CachedFile&) = delete;
  CachedFile& operator=(const CachedFile&) = delete;
  void fetch(uint64_t offset, size_t count) {
    REQUIRE(pread(fd, bytes.data(), count, static_cast<off_t>(offset)) ==
            static_cast<ssize_t>(count));
  }
};

}  // namespace

TEST_CASE("pages of the system's size") {
  CHECK(pages_touched(0, 1, kSmall) == 1);
  CHECK(pages_touched(4096, 8192, kSmall) == 2);
  CHECK(pages_touched(4095, 2, kSmall) == 2);
  CHECK(pages_touched(8192, 77, kSmall) == 1);
  // Sixteen of ours are one of these, or parts of two.
  CHECK(pages_touched(0, kLarge, kLarge) == 1);
  CHECK(pages_touched(4096, kLarge, kLarge) == 2);
  CHECK(pages_touched(4096, 4096, kLarge) == 1);
  CHECK(pages_touched(kLarge - 4096, 8192, kLarge) == 2);
  CHECK(pages_touched(0, 512 * kSmall, kLarge) == 32);
  CHECK(pages_touched(uint64_t{1} << 40, 3 * kLarge + 1, kLarge) == 4);
}

TEST_CASE("all of a range is in the page cache, or not") {
  const uint64_t page = sys::page_size();
  CachedFile file(8 * page + 77);
  if (lease::cached_pages(file.fd, 0, 0) < 0) {  // before Linux 6.5
    CHECK(!lease::all_cached(file.fd, 0, page));
    return;
  }
  REQUIRE(lease::cached_pages(file.fd, 0, 0) == 0);
  CHECK(!lease::all_cached(file.fd, 3 * page, page));
  file.fetch(3 * page, 2 * page);
  file.fetch(8 * page, 77);
  CHECK(lease::all_cached(file.fd, 3 * page, 2 * page));
  CHECK(lease::all_cached(file.fd, 4 * page - 1, 2));
  CHECK(lease::all_cached(file.fd, 8 * page, 77));
  CHECK(!lease::all_cached(file.fd, 3 * page, 2 * page + 1));
  CHECK(!lease::all_cached(file.fd, 3 * page - 1, 2));
  CHECK(!lease::all_cached(file.fd, 0, 8 * page + 77));
}
