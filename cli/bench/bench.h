// SPDX-License-Identifier: MIT
// `racache bench`: what was asked for, what it measures with, and what it
// prints.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/bench/child.h"
#include "cli/bench/device.h"
#include "cli/bench/files.h"
#include "cli/bench/rows.h"

namespace racache::cli::bench {

struct Options {
  std::string directory = ".";
  std::vector<std::string> only;  // names of rows, or how they begin
  std::string size;               // "256M"; empty: as --quick says
  unsigned runs = 0;              // 0: five
  bool quick = false;
  bool json = false;
  bool ablation = false;
  bool list = false;

  [[nodiscard]] uint64_t bytes() const;  // a bad --size: CLI::Error
  [[nodiscard]] unsigned run_count() const { return runs != 0 ? runs : 5; }
  [[nodiscard]] bool wants(const Row& row) const;
};

// One line on standard error that shows what goes on; nothing where that is
// not a terminal.
class Progress {
 public:
  Progress();
  ~Progress() { show(""); }
  void show(const std::string& text) const;

 private:
  bool terminal_;
};

// All that a measurement needs. Its end undoes what was made and set.
class Lab {
 public:
  explicit Lab(const Options& options);
  [[nodiscard]] const Device& device() const { return device_; }
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }
  [[nodiscard]] const std::string& library() const { return library_; }
  [[nodiscard]] Measured measure(const Row& row, const std::vector<Side>& sides,
                                 const std::string& position);

 private:
  struct Task;
  void measure_sides(const Task& task, const std::string& position,
                     Measured& measured);
  void prepare(Task& task);
  void prepare_database(Task& task);
  void apply_settings(Task& task);
  [[nodiscard]] Sample run(const Task& task, const Side& side,
                           bool count_folios);
  [[nodiscard]] Environment environment_of(const Task& task,
                                           const Side& side) const;
  void subtract_warm_up(const Row& row, const Side& side,
                        Statistics& statistics);
  [[nodiscard]] Statistics take_statistics(bool required);
  [[nodiscard]] const Statistics& warm_up_statistics(
      const std::string& disable);
  void note(const std::string& text);

  Options options_;
  std::string library_, self_;
  WorkDirectory files_;
  Device device_;
  DeviceSettings settings_;
  Progress progress_;
  std::vector<std::string> notes_;
  std::map<std::string, Statistics> warm_ups_;  // by RACACHE_DISABLE
};

// The sides of the usual table.
[[nodiscard]] std::vector<Side> usual_sides();

void print_tables(const Options& options, const Lab& lab,
                  const std::vector<Measured>& all);
void print_json(const Options& options, const Lab& lab,
                const std::vector<Measured>& all);
void print_list(bool json);

// Each rule of the patches with and without RACACHE_DISABLE. The rows that
// failed are left out and returned.
[[nodiscard]] std::vector<Measured> run_ablation(const Options& options,
                                                 Lab& lab);

}  // namespace racache::cli::bench
