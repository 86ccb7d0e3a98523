// SPDX-License-Identifier: MIT
// The workloads' loops, as `racache bench-workload NAME KEY=VALUE...` runs
// them: the same program with the library preloaded and without.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/bench/meter.h"

namespace racache::cli::bench {

struct Job {
  std::string file;
  std::string warm;  // a small file that is read before the measured region
  std::string stat;  // of the device
  uint64_t size = 0;
  uint64_t block = 0;
  uint64_t count = 0;
  uint64_t threads = 1;
  uint64_t passes = 1;
  uint64_t seed = 1;
};

// The generator of all random numbers here: splitmix64 (Steele, Lea, Flood).
class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

// Every failure of a call is thrown as std::system_error.
int open_file(const std::string& path);
[[noreturn]] void throw_errno(const std::string& what);
void read_at(int fd, char* buffer, uint64_t bytes, uint64_t offset);
// Starts the engine, and with RACACHE_POPULATE its arena, ahead of the
// measured region: one read of a file that is not measured.
void warm_up(const Job& job);
// Page-aligned memory that has been written to; never given back.
char* touched_buffer(uint64_t bytes);

// workload_crowd.cc: more than one thread or process.
void threads_workload(const Job& job, Meter& meter);
void processes_workload(const Job& job, Meter& meter);

// Runs what the arguments say and prints the measurement as JSON.
int run_workload(const std::vector<std::string>& arguments);

}  // namespace racache::cli::bench
