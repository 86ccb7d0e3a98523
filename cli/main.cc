// SPDX-License-Identifier: MIT
// The `racache` command: starts programs with the cache, explains its options,
// and tells whether this machine lets it work.
#include <cstdio>
#include <exception>
#include <iostream>

#include "cli/commands.h"

namespace {

int run(std::vector<std::string> arguments) {
  using namespace racache::cli;
  const std::vector<std::string> program = split_run(arguments);
  CLI::App app("A page cache and readahead engine for unmodified programs",
               "racache");
  app.set_version_flag("--version", std::string("racache ") + RACACHE_VERSION);
  app.require_subcommand(1);
  int status = 0;
  add_run_command(app, program, status);
  add_doctor_command(app, status);
  add_stat_command(app, status);
  add_config_command(app, status);
  add_sim_command(app, status);
  add_bench_command(app, status);
  try {
    // CLI11 takes the arguments from the back.
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(reversed);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? 0 : 2;  // 2 as everywhere for a wrong command line
  }
  return status;
}

// What was asked for and could not be written was not done.
int finish(int status) {
  std::cout.flush();
  if (std::cout.good() && fflush(stdout) == 0 && ferror(stdout) == 0) {
    return status;
  }
  std::cerr << "racache: cannot write to standard output\n";
  return status != 0 ? status : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return finish(run(std::vector<std::string>(argv + 1, argv + argc)));
  } catch (const std::exception& e) {
    std::cerr << "racache: " << e.what() << '\n';
    return 125;
  }
}
