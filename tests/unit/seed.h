// SPDX-License-Identifier: MIT
// Seeds of randomized tests: new in every run, printed, and set by
// RACACHE_TEST_SEED to repeat a run.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>

inline uint64_t test_seed() {
  static const uint64_t seed = [] {
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const char* text = std::getenv("RACACHE_TEST_SEED");
    const uint64_t value =
        text != nullptr ? std::strtoull(text, nullptr, 0)
                        : static_cast<uint64_t>(now.tv_nsec + now.tv_sec);
    std::printf("RACACHE_TEST_SEED=%llu\n",
                static_cast<unsigned long long>(value));
    std::fflush(stdout);
    return value;
  }();
  return seed;
}

class Random {
 public:
  explicit Random(uint64_t stream = 0) : engine_(test_seed() + stream) {}
  uint64_t below(uint64_t bound) { return engine_() % bound; }
  bool one_in(uint64_t n) { return below(n) == 0; }

 private:
  std::mt19937_64 engine_;
};
