// SPDX-License-Identifier: MIT
// What `racache doctor` looks at, one line each.
#pragma once

#include <string>
#include <vector>

namespace racache::cli {

enum class Verdict {
  kOk,
  kWarn,  // racache works, with less
  kFail,  // racache would leave every file to the kernel
};

struct Check {
  Verdict verdict;
  std::string name;
  std::string detail;
};
using Checks = std::vector<Check>;

// "EPERM (Operation not permitted)".
std::string error_text(int err);
// The first line of a small file; empty when it cannot be read.
std::string first_line(const std::string& path);

// Leases, direct I/O, cachestat and the device, for files in `directory`.
Checks check_directory(const std::string& directory);

}  // namespace racache::cli
