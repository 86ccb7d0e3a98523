// SPDX-License-Identifier: MIT
// The subcommands of `racache`. Each adds itself to the application; when it
// is the one that was called it leaves its exit status in `status`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace racache::cli {

void add_bench_command(CLI::App& app, int& status);
void add_config_command(CLI::App& app, int& status);
void add_doctor_command(CLI::App& app, int& status);
void add_stat_command(CLI::App& app, int& status);
// `program` is what stands behind the options of `run`; see split_run().
void add_run_command(CLI::App& app, const std::vector<std::string>& program,
                     int& status);
void add_sim_command(CLI::App& app, int& status);

// Takes PROGRAM ARGS off the end of the arguments of `racache run`, so that
// the program's own options are not mistaken for ours. "--" may stand before
// them and is dropped.
std::vector<std::string> split_run(std::vector<std::string>& arguments);

// "RACACHE_READ_AHEAD_KB" -> "read-ahead-kb"; empty for RACACHE itself.
std::string option_flag(const std::string& variable);

}  // namespace racache::cli
