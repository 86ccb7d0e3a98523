// SPDX-License-Identifier: MIT
// Starts the programs that are measured, and ends them with this one: on
// SIGINT, SIGTERM and SIGHUP everything is undone that was made.
#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/bench/meter.h"

namespace racache::cli::bench {

// Thrown where work would go on after one of the signals.
struct Interrupted : std::runtime_error {
  explicit Interrupted(int signal_number)
      : std::runtime_error("interrupted"), signal(signal_number) {}
  int signal;
};

// Notes the signals instead of dying of them, as long as it lives.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;
};
void throw_if_interrupted();

// Set in the child; an empty value unsets.
using Environment = std::map<std::string, std::string>;

struct Ended {
  int status;  // exit status, or 128 + signal
  std::string output, errors;
  Usage usage;  // of the program and those it waited for
};
// Runs to its end, with no standard input, in a process group of its own.
[[nodiscard]] Ended run_program(const std::vector<std::string>& arguments,
                                const Environment& environment);
// The first of them along PATH; empty: not installed.
[[nodiscard]] std::string find_program(const std::string& name);

}  // namespace racache::cli::bench
