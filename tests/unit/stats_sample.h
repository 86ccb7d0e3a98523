// SPDX-License-Identifier: MIT
// A snapshot for the tests of statistics, and how it prints.
#pragma once

#include <doctest/doctest.h>
#include <cstring>
#include <string>

#include "core/stats.h"

namespace racache::test {

using std::string;

// Every counter has another value, so that two that are mixed up show.
inline Snapshot sample() {
  Snapshot s{};
  uint64_t n = 100;
#define RACACHE_X(name) s.counters.name = ++n;
  RACACHE_COUNTERS(RACACHE_X)
#undef RACACHE_X
  s.counters.hits = 900;
  s.counters.misses = 100;
  s.counters.device_bytes = 1 << 20;
  s.counters.used_bytes = 1 << 19;
  s.counters.wait_ns = 1500000000;
  s.counters.polled_ns = 250000000;
  s.counters.verify_failures = 0;
  for (unsigned i = 0; i < kOrders; ++i) {
    s.counters.inserted_by_order[i] = 500 + i;
    s.live_by_order[i] = 600 + i;
  }
  s.live_folios = 700;
  s.kernel_files[static_cast<size_t>(Reason::kSmall)] = 5;
  s.kernel_files[static_cast<size_t>(Reason::kNotOwner)] = 2;
  s.memory_limit = 801;
  s.memory_used = 802;
  s.memory_metadata = 803;
  s.memory_huge = 804;
  s.memory_given_back = 805;
  s.memory_pressed = 0.75;
  s.io = "threads";
  s.io_why = "io_uring: EPERM (seccomp?)";
  s.top_count = 1;
  strcpy(s.top[0].path, "/data/a.sst");
  s.top[0].reads = 11;
  s.top[0].hits = 10;
  s.top[0].device_bytes = 12;
  s.seconds = 1.25;
  s.pid = 4321;
  strcpy(s.program, "db_bench");
  return s;
}

inline string text_of(const Snapshot& s, const Config& config = {}) {
  static char room[1 << 20];
  Text out(room, sizeof room);
  const size_t length = stats::format_text(s, config, out);
  CHECK(length == strlen(room));
  CHECK_FALSE(out.truncated());
  return room;
}

inline bool has(const string& s, const char* part) {
  INFO(s);
  return s.find(part) != string::npos;
}

}  // namespace racache::test
