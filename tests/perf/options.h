// SPDX-License-Identifier: MIT
// What the reader is told on its command line.
#pragma once

#include <bit>
#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>

namespace perf {

struct Options {
  std::string file;
  std::string op = "pread";  // pread, read, mixed
  std::string load;          // "": cold; read: by reading; whole: WILLNEED
  std::string warm_up;       // a file that is read first, to start the engine
  uint64_t size = 4096;
  uint64_t span = 1 << 20;
  uint64_t calls = 1;  // a round, all threads together
  unsigned threads = 1;
  bool random = false;
  bool fadvise_random = false;
  bool via_memory = false;  // memcpy from huge pages, for comparison

  uint64_t blocks() const { return std::bit_floor(span / size); }
};

inline Options parse(int argc, char** argv) {
  Options o;
  CLI::App app("reads a file and tells how long it took");
  app.add_option("--file", o.file)->required();
  app.add_option("--op", o.op)
      ->check(CLI::IsMember({"pread", "read", "mixed"}));
  app.add_option("--load", o.load)->check(CLI::IsMember({"read", "whole"}));
  app.add_option("--warm-up", o.warm_up);
  app.add_option("--size", o.size)->check(CLI::PositiveNumber);
  app.add_option("--span", o.span)->check(CLI::PositiveNumber);
  app.add_option("--calls", o.calls);
  app.add_option("--threads", o.threads)->check(CLI::Range(1, 64));
  app.add_flag("--random", o.random);
  app.add_flag("--fadvise-random", o.fadvise_random);
  app.add_flag("--via-memory", o.via_memory);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return o;
}

}  // namespace perf
