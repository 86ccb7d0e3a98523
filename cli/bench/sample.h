// SPDX-License-Identifier: MIT
// What one run of a workload gives, and what several of them come to.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/bench/page_cache.h"

namespace racache::cli::bench {

// The library's own statistics of the processes of a run, added up.
struct Statistics {
  uint64_t calls = 0;
  uint64_t lookups = 0;
  uint64_t device_requests = 0;
  uint64_t device_bytes = 0;
  uint64_t overlap_skips = 0;
  uint64_t trims_avoided = 0;
  uint64_t order_fallbacks = 0;
  uint64_t evicted = 0;
  uint64_t adopted = 0;
  uint64_t folios[10] = {};                // put into the cache, by order
  std::map<std::string, uint64_t> kernel;  // files not cached, by reason

  void add(const nlohmann::json& statistics);
  // Takes away what the warm-up alone did.
  void subtract(const Statistics& warm_up);
  [[nodiscard]] uint64_t folio_count() const;
};

// Of the measured region; the statistics are those of the whole process, less
// the warm-up.
struct Sample {
  double seconds = 0;
  double rate = 0;  // in the row's unit; 0 where the row counts seconds
  double user = 0;
  double system = 0;
  int64_t faults = 0;
  int64_t requests = -1;  // of the device; -1: it has no statistics
  int64_t bytes = -1;
  Statistics counts;
  FolioCount kernel_folios;  // of the kernel's side, its first run
};

// A figure over all runs.
struct Spread {
  double median = 0, least = 0, most = 0;
};
[[nodiscard]] Spread spread(std::vector<double> values);

// How a run is made.
struct Side {
  const char* name;
  bool preloaded;
  bool populated;       // the arena is prepared and warm before the measurement
  const char* disable;  // RACACHE_DISABLE
};

struct Runs {
  Side side;
  std::vector<Sample> samples;

  template <class Get>
  [[nodiscard]] Spread of(Get get) const {
    std::vector<double> values;
    for (const Sample& s : samples) {
      values.push_back(static_cast<double>(get(s)));
    }
    return spread(std::move(values));
  }
  // What the row is judged by: seconds or the rate.
  [[nodiscard]] Spread figure() const;
};

// "%.3f" and the like, as a string.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

}  // namespace racache::cli::bench
