// SPDX-License-Identifier: MIT
// Every hit asks the clock whether leases are looked after, so that clock must
// be the kernel's, cheap, and asked without system calls.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "core/lease_watch.h"

#include <doctest/doctest.h>
#include <sys/auxv.h>
#include <unistd.h>
#include <cerrno>

#include "core/lease.h"

using namespace racache;

namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;

uint64_t kernel_ns(clockid_t clock) {
  timespec time{};
  REQUIRE(syscall(SYS_clock_gettime, clock, &time) == 0);
  return static_cast<uint64_t>(time.tv_sec) * kSecondNs +
         static_cast<uint64_t>(time.tv_nsec);
}

void check_clock(clockid_t clock, uint64_t (*ours)()) {
  for (int i = 0; i < 1000; ++i) {
    const uint64_t before = kernel_ns(clock);
    const uint64_t now = ours();
    CHECK(before <= now);
    CHECK(now <= kernel_ns(clock));
  }
}

}  // namespace

TEST_CASE("the clocks are the kernel's, before and after the vDSO is found") {
  check_clock(CLOCK_MONOTONIC, sys::monotonic_ns);
  check_clock(CLOCK_MONOTONIC_COARSE, sys::coarse_ns);
  const vdso::ClockGetTime by_system_call = vdso::clock_gettime;
  vdso::init();
  CHECK((vdso::clock_gettime != by_system_call) ==
        (getauxval(AT_SYSINFO_EHDR) != 0));
  check_clock(CLOCK_MONOTONIC, sys::monotonic_ns);
  check_clock(CLOCK_MONOTONIC_COARSE, sys::coarse_ns);
}

TEST_CASE("errors come back, and errno is left alone") {
  errno = 77;
  timespec time;
  CHECK(vdso::clock_gettime(12345, &time) == -EINVAL);
  CHECK(errno == 77);
}

TEST_CASE("leases are looked after for half of what a writer waits") {
  lease_watch::begin();
  CHECK_FALSE(lease_watch::begun());
  CHECK_FALSE(lease_watch::current());
  const uint64_t now = sys::coarse_ns();
  lease_watch::looked(now, 20 * kSecondNs);
  CHECK(lease_watch::begun());
  CHECK(lease_watch::current());
  CHECK(lease_watch::until_ns == now + 10 * kSecondNs);
  lease_watch::looked(now - 11 * kSecondNs, 20 * kSecondNs);
  CHECK_FALSE(lease_watch::current());
  lease_watch::begin();
  CHECK_FALSE(lease_watch::current());
}

TEST_CASE("how long a writer waits is the kernel's setting") {
  const uint64_t ns = lease::break_time_ns();
  CHECK(ns >= kSecondNs);
  CHECK(ns <= 24 * 60 * 60 * kSecondNs);
  CHECK(ns % kSecondNs == 0);
}
