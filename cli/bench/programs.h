// SPDX-License-Identifier: MIT
// The command lines of the programs that are measured, and what their output
// says.
#pragma once

#include <string>
#include <vector>

#include "cli/bench/child.h"
#include "cli/bench/rows.h"

namespace racache::cli::bench {

struct Place {
  std::string self;  // this very program
  std::string data, warm, database, stat;
  uint64_t size;  // of the row's file
  uint64_t full;  // as asked for, of which the row takes a share
};

// Empty when the program is not installed; `warm`: with the warm-up.
[[nodiscard]] std::vector<std::string> command_of(const Row& row,
                                                  const Place& place,
                                                  bool warm);
// What to say when it is not.
[[nodiscard]] std::string how_to_install(Program program);
// Makes a database of about `size` bytes in one table.
void make_database(const std::string& path, uint64_t size);

// Reads time and rate; what the device did is seen from outside for programs
// that do not say it. Throws on output that makes no sense.
void parse_output(const Row& row, const Ended& ended, Sample& sample);

}  // namespace racache::cli::bench
