// SPDX-License-Identifier: MIT
// The published workloads of the four patches: one row each, with what was
// published, how the workload is run, and what must hold.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cli/bench/sample.h"

namespace racache::cli::bench {

inline constexpr uint64_t kMiB = 1 << 20;
inline constexpr uint64_t kFullSize = 1024 * kMiB;

// What must hold of a row. `value` is a count or a factor.
struct Need {
  enum Kind : uint8_t {
    kNothing,
    kFoliosPer,       // exactly one folio for each `value` bytes of the file
    kFolios,          // exactly so many
    kModelFolios,     // the model's count, give or take `value`
    kRatio,           // at least so many times as fast as the kernel
    kLessSystem,      // less system time than the kernel
    kRequests,        // at most so many device requests
    kFewerRequests,   // at most as many as the kernel
    kDeviceBytes,     // at most so many times the file
    kLookups,         // at most so many index look-ups a read
    kSameAsTheOther,  // within `value` of the row `other`
  } kind = kNothing;
  double value = 0;
};

enum class Program : uint8_t { kOwn, kFio, kDbBench };

struct Row {
  const char* name;
  const char* title;
  const char* published;  // before -> after
  const char* unit;       // "s", or of a rate: more is better
  Program program;
  const char* workload;  // of `racache bench-workload`, or fio's options
  unsigned share;        // its file is 1/share of the size asked for
  uint64_t block;        // bytes a request
  uint64_t count;        // requests at full size; 0: the whole file
  unsigned threads;
  unsigned passes;
  unsigned read_ahead_kb;
  unsigned max_sectors_kb;
  Need needs[3];
  // tests/model/ra_model.py's folios for 1 GiB and for 256 MiB; 0: not asked.
  unsigned model[2];
  const char* other;  // kSameAsTheOther

  [[nodiscard]] uint64_t file_size(uint64_t size) const { return size / share; }
  [[nodiscard]] uint64_t requests(uint64_t size) const;
  [[nodiscard]] bool counts_seconds() const { return unit[0] == 's'; }
};

[[nodiscard]] std::span<const Row> rows();
// The row of that name; null when there is none.
[[nodiscard]] const Row* find_row(const std::string& name);

// The row as measured: kernel, racache and fresh in this order (or the two
// sides of an ablation).
struct Measured {
  const Row* row;
  uint64_t file_size;
  std::string skipped;  // why there is nothing else
  std::string failed;   // what went wrong; then no run is to be believed
  std::vector<Runs> runs;

  // How many times as fast as runs[0] the other is; 0: not known.
  [[nodiscard]] double ratio(size_t other) const;
};

// "1.55x"; "-" for a ratio that is not known.
[[nodiscard]] std::string times(double ratio);

struct Verdict {
  std::string what;
  std::string found;
  bool holds;
};
// What holds and what does not; `all` is where other rows are looked up. What
// the size of the file or the device leaves open is left out.
[[nodiscard]] std::vector<Verdict> judge(const Measured& measured,
                                         const std::vector<Measured>& all);

}  // namespace racache::cli::bench
