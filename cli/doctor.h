// SPDX-License-Identifier: MIT
// What `racache doctor` looks at, one line each.
#pragma once

#include <string>
#include <vector>

namespace racache::cli {

// In order, and the exit status of the command.
enum class Verdict {
  kOk,
  kWarn,  // racache works, with less
  kFail,  // racache would leave every file, or this one, to the kernel
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

// The machine, and the limits of this process.
Checks check_system();
// Leases, direct I/O, cachestat and the device: for files in a directory, or
// for one file.
Checks check_path(const std::string& path);

// The processes that have the file at `path` open for writing, as far as /proc
// lets us see them: "fio (pid 17)".
std::vector<std::string> writers_of(const std::string& path);

}  // namespace racache::cli
