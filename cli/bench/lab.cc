// SPDX-License-Identifier: MIT
// Measures a row: its sides in turn, each run cold.
#include <sys/stat.h>
#include <unistd.h>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "cli/bench/bench.h"
#include "cli/bench/memory.h"
#include "cli/bench/programs.h"
#include "cli/library.h"
#include "cli/size.h"

namespace racache::cli::bench {
namespace {

namespace fs = std::filesystem;

std::string usable_library() {
  const Library library = find_library();
  if (library.path.empty()) {
    throw std::runtime_error(
        "libracache.so was not found; set RACACHE_LIBRARY to its path");
  }
  if (!library.problem.empty()) {
    throw std::runtime_error(library.path + ": " + library.problem);
  }
  return library.path;
}

std::vector<std::string> files_below(const std::string& directory) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  return files;
}

uint64_t table_bytes(const std::string& database) {
  uint64_t bytes = 0;
  for (const std::string& file : files_below(database)) {
    if (file.ends_with(".sst")) bytes += fs::file_size(file);
  }
  return bytes;
}

std::vector<std::string> files_of(const Row& row, const Place& place) {
  if (row.program != Program::kDbBench) return {place.data};
  return files_below(place.database);
}

std::string reasons(const Statistics& s) {
  std::string text;
  for (const auto& [reason, count] : s.kernel) {
    text += (text.empty() ? "" : "; ") + reason;
  }
  return text.empty() ? "no reason given" : text;
}

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const size_t at = text.rfind('\n');
  return at == std::string::npos ? text : text.substr(at + 1);
}

// A row that only touches a mapping may leave the library without a single
// read, and so without anything to write; unless the warm-up was one.
bool must_leave_statistics(const Row& row, const Side& side) {
  return side.populated || std::string(row.workload) != "willneed";
}

// A run that went wrong: it costs its row, and the others go on.
struct RowFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace

struct Lab::Task {
  const Row& row;
  Place place;
  bool by_variables;  // the device's settings could not be set
};

Lab::Lab(const Options& options)
    : options_(options),
      library_(usable_library()),
      self_(fs::read_symlink("/proc/self/exe")),
      files_(options.directory),
      device_(find_device(files_.path())),
      settings_(device_) {
  if (geteuid() != 0) {
    note("not root: \"cold\" is by FADV_DONTNEED of the files only");
  }
  if (device_.name.empty()) {
    note("the device behind the directory is not known: no requests, no bytes");
  }
  if (!settings_.possible()) {
    note(
        "the device's read_ahead_kb and max_sectors_kb are left alone (they "
        "are set as root on a loop device\n  only): racache is told by "
        "RACACHE_READ_AHEAD_KB and RACACHE_IO_KB, the kernel has its own");
  }
}

void Lab::note(const std::string& text) {
  for (const std::string& known : notes_) {
    if (known == text) return;
  }
  notes_.push_back(text);
}

Statistics Lab::take_statistics(bool required) {
  const std::vector<std::string> texts = files_.take_statistics();
  if (texts.empty() && required) {
    throw RowFailed(
        "there are no statistics: nothing was cached (see racache "
        "doctor, and the environment's RACACHE)");
  }
  Statistics sum;
  try {
    for (const std::string& text : texts) sum.add(nlohmann::json::parse(text));
  } catch (const nlohmann::json::exception& e) {
    throw RowFailed(std::string("its statistics are not whole: ") + e.what());
  }
  return sum;
}

void Lab::apply_settings(Task& task) {
  const Row& row = task.row;
  task.by_variables = !settings_.set(row.read_ahead_kb, row.max_sectors_kb);
  if (task.by_variables && settings_.possible()) {
    note(format("%s: the device does not take max_sectors_kb %u", row.name,
                row.max_sectors_kb));
  }
}

void Lab::prepare_database(Task& task) {
  task.place.database = files_.path() + "/database";
  if (!fs::exists(task.place.database)) {
    make_database(task.place.database, task.place.size);
    sync();
  }
  task.place.size = table_bytes(task.place.database);
}

void Lab::prepare(Task& task) {
  task.place.self = self_;
  task.place.stat = device_.stat_path;
  task.place.full = options_.bytes();
  task.place.size = task.row.file_size(options_.bytes());
  task.place.warm = files_.warm();
  if (task.row.program == Program::kDbBench) {
    if (!find_program("db_bench").empty()) prepare_database(task);
  } else {
    task.place.data = files_.data(task.place.size);
  }
  apply_settings(task);
}

// What the warm-up does to the statistics, by itself.
const Statistics& Lab::warm_up_statistics(const std::string& disable) {
  const auto known = warm_ups_.find(disable);
  if (known != warm_ups_.end()) return known->second;
  const std::vector<std::string> words = {self_, "bench-workload", "nothing",
                                          "warm=" + files_.warm()};
  const Ended ended =
      run_program(words, {{"LD_PRELOAD", library_},
                          {"RACACHE_SIZE", "16M"},
                          {"RACACHE_DISABLE", disable},
                          {"RACACHE_STATS", files_.statistics_option()}});
  if (ended.status != 0) throw RowFailed(last_line(ended.errors));
  return warm_ups_[disable] = take_statistics(true);
}

void Lab::subtract_warm_up(const Row& row, const Side& side,
                           Statistics& statistics) {
  if (!side.populated || row.program == Program::kDbBench) return;
  // Of several processes each has its own, as has the one that starts them.
  const bool crowd = std::string(row.workload) == "processes";
  for (unsigned i = 0; i < (crowd ? row.threads + 1 : 1); ++i) {
    statistics.subtract(warm_up_statistics(side.disable));
  }
}

Environment Lab::environment_of(const Task& task, const Side& side) const {
  const Row& row = task.row;
  if (!side.preloaded) return {{"LD_PRELOAD", ""}};
  Environment environment = {
      {"LD_PRELOAD", library_},
      {"RACACHE_STATS", files_.statistics_option()},
      {"RACACHE_SIZE", size_text(cache_bytes(task.place.size))},
      {"RACACHE_POPULATE", side.populated ? "1" : "0"},
      {"RACACHE_DISABLE", side.disable}};
  if (task.by_variables) {
    environment["RACACHE_READ_AHEAD_KB"] = std::to_string(row.read_ahead_kb);
    environment["RACACHE_IO_KB"] = std::to_string(row.max_sectors_kb);
  }
  return environment;
}

Sample Lab::run(const Task& task, const Side& side, bool count_folios) {
  const Row& row = task.row;
  // The kernel's side reads the warm-up's file as well: the loops are the same.
  const bool warm = side.populated || !side.preloaded;
  make_cold(device_, files_below(files_.path()));
  const DeviceCount before = settle_device(device_.stat_path);
  const Ended ended = run_program(command_of(row, task.place, warm),
                                  environment_of(task, side));
  const DeviceCount after = settle_device(device_.stat_path);
  if (ended.status != 0) {
    throw RowFailed("exit status " + std::to_string(ended.status) + ": " +
                    last_line(ended.errors));
  }
  Sample sample;
  if (before.known && after.known) {
    sample.requests = after.reads - before.reads;
    sample.bytes = (after.sectors - before.sectors) * 512;
  }
  parse_output(row, ended, sample);
  if (side.preloaded) {
    sample.counts = take_statistics(must_leave_statistics(row, side));
    subtract_warm_up(row, side, sample.counts);
  } else if (count_folios) {
    sample.kernel_folios = cached_folios(files_of(row, task.place));
  }
  return sample;
}

Measured Lab::measure(const Row& row, const std::vector<Side>& sides,
                      const std::string& position) {
  Measured measured{&row, 0, "", "", {}};
  Task task{row, {}, false};
  progress_.show(position + " " + row.name + ": preparing");
  prepare(task);
  measured.file_size = task.place.size;
  if (command_of(row, task.place, false).empty()) {
    measured.skipped = how_to_install(row.program);
    return measured;
  }
  for (const Side& side : sides) measured.runs.push_back({side, {}});
  measure_sides(task, position, measured);
  if (!measured.failed.empty()) measured.runs.clear();
  return measured;
}

void Lab::measure_sides(const Task& task, const std::string& position,
                        Measured& measured) {
  const std::string name = task.row.name;
  const unsigned count = options_.run_count();
  for (unsigned i = 0; i < count; ++i) {
    for (Runs& runs : measured.runs) {
      progress_.show(position + " " + name +
                     format(": run %u of %u, ", i + 1, count) + runs.side.name);
      try {
        runs.samples.push_back(run(task, runs.side, i == 0));
      } catch (const RowFailed& e) {
        (void)files_.take_statistics();  // of this run: not the next one's
        measured.failed = std::string(runs.side.name) + ": " + e.what();
        return;
      }
      const Statistics& s = runs.samples.back().counts;
      if (runs.side.preloaded && s.calls == 0 && s.folio_count() == 0) {
        note(name + ": nothing was cached: " + reasons(s));
      }
    }
  }
}

std::vector<Side> usual_sides() {
  return {{"kernel", false, false, ""},
          {"racache", true, true, ""},
          {"fresh", true, false, ""}};
}

Progress::Progress() : terminal_(isatty(STDERR_FILENO) == 1) {}

void Progress::show(const std::string& text) const {
  if (terminal_) std::cerr << "\r\033[K" << text << std::flush;
}

}  // namespace racache::cli::bench
