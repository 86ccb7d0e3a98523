// SPDX-License-Identifier: MIT
// `racache bench` and the hidden `racache bench-workload`, which it starts.
#include <algorithm>
#include <csignal>
#include <functional>
#include <iostream>
#include <stdexcept>

#include "cli/bench/bench.h"
#include "cli/bench/child.h"
#include "cli/bench/memory.h"
#include "cli/bench/workloads.h"
#include "cli/commands.h"
#include "cli/size.h"

namespace racache::cli {
namespace bench {

uint64_t Options::bytes() const {
  if (size.empty()) return quick ? kFullSize / 4 : kFullSize;
  // The smallest share of it still holds the largest request.
  const uint64_t bytes = parse_size(size, 32 * kMiB);
  if (bytes % kMiB != 0) {
    throw CLI::ValidationError("--size", size + ": not a whole number of MiB");
  }
  return bytes;
}

bool Options::wants(const Row& row) const {
  if (only.empty()) return true;
  for (const std::string& begin : only) {
    if (std::string(row.name).starts_with(begin)) return true;
  }
  return false;
}

namespace {

std::vector<const Row*> chosen(const Options& options) {
  std::vector<const Row*> all;
  for (const Row& row : rows()) {
    if (options.wants(row)) all.push_back(&row);
  }
  if (all.empty()) throw CLI::ValidationError("--only", "there is no such row");
  return all;
}

bool failed(const Measured& m) { return !m.failed.empty(); }

// Those that failed. What was measured is printed, if anything was.
std::vector<Measured> measure_all(const Options& options) {
  const std::vector<const Row*> wanted = chosen(options);
  Lab lab(options);
  if (options.ablation) return run_ablation(options, lab);
  std::vector<Measured> all;
  for (const Row* row : wanted) {
    const std::string position =
        format("[%zu/%zu]", all.size() + 1, wanted.size());
    all.push_back(lab.measure(*row, usual_sides(), position));
  }
  if (!std::all_of(all.begin(), all.end(), failed)) {
    options.json ? print_json(options, lab, all)
                 : print_tables(options, lab, all);
  }
  std::erase_if(all, std::not_fn(failed));
  return all;
}

int run(const Options& options) {
  const uint64_t size = options.bytes();  // before anything is made
  if (options.list) {
    print_list(options.json);
    return 0;
  }
  for (const Row* row : chosen(options)) {
    const std::string lack = lack_of_memory(*row, size);
    if (lack.empty()) continue;
    std::cerr << "racache bench: " << lack << '\n';
    return 2;
  }
  const SignalWatch watch;
  try {
    const std::vector<Measured> failures = measure_all(options);
    for (const Measured& m : failures) {
      std::cerr << "racache bench: " << m.row->name << ", " << m.failed << '\n';
    }
    return failures.empty() ? 0 : 1;
  } catch (const Interrupted& e) {
    return 128 + e.signal;
  } catch (const std::exception& e) {
    std::cerr << "racache bench: " << e.what() << '\n';
    return 1;
  }
}

}  // namespace
}  // namespace bench

void add_bench_command(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand(
      "bench", "the patches' published workloads: the kernel against racache");
  auto options = std::make_shared<bench::Options>();
  command->add_option("--dir", options->directory,
                      "where the files are made; default: here");
  command->add_option("--only", options->only,
                      "rows by name, or how their names begin");
  command->add_option("--size", options->size,
                      "of the file; default 1G, with --quick 256M");
  command->add_option("--runs", options->runs, "of each side; default 5");
  command->add_flag("--quick", options->quick, "on a smaller file");
  command->add_flag("--json", options->json, "as JSON");
  command->add_flag("--ablation", options->ablation,
                    "each rule with and without RACACHE_DISABLE");
  command->add_flag("--list", options->list, "the rows; nothing is measured");
  command->callback([options, &status] { status = bench::run(*options); });

  CLI::App* workload = app.add_subcommand("bench-workload")->group("");
  auto words = std::make_shared<std::vector<std::string>>();
  workload->add_option("words", *words);
  workload->callback(
      [words, &status] { status = bench::run_workload(*words); });
}

}  // namespace racache::cli
