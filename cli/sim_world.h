// SPDX-License-Identifier: MIT
// A cache without a device: the engine's own index, readahead, arena and
// eviction over the fake backend, whose reads bring nothing and take no time
// but a step. One thread; no file is opened.
#pragma once

#include <memory>

#include "cli/sim_trace.h"
#include "core/config.h"
#include "core/counters.h"

namespace racache {
struct Engine;
class File;
}  // namespace racache

namespace racache::cli {

struct SimOptions {
  uint64_t cache_bytes = 64 << 20;
  EvictKind evict = EvictKind::kS3Fifo;
  uint64_t read_ahead_kb = 128;
  uint64_t io_kb = 1280;
  uint32_t max_order = kMaxOrder;
};

struct SimResult {
  Counters counters;
  double seconds;            // that the replay took
  uint64_t most_used_bytes;  // of the cache
  uint64_t metadata_bytes;
  double hit_ratio() const;   // of calls
  double uncached() const;    // of calls: left to the kernel for want of memory
  double over_fetch() const;  // of the device's bytes: never used
};

class SimWorld {
 public:
  // Throws std::bad_alloc when the memory cannot be had. Files get an index as
  // they are first used, as long as there is memory for one.
  SimWorld(const SimOptions& options, const std::vector<uint64_t>& file_sizes,
           uint32_t descriptions);
  ~SimWorld();
  SimWorld(const SimWorld&) = delete;
  SimWorld& operator=(const SimWorld&) = delete;

  void play(const TraceEvent& event);
  racache::Engine& engine();
  racache::File& file(uint32_t number);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Replays all of the trace.
SimResult simulate(const Trace& trace, const SimOptions& options);

}  // namespace racache::cli
