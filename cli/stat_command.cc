// SPDX-License-Identifier: MIT
// `racache stat`: the running processes of this user that are watched, once or
// again and again, in the manner of vmstat(8).
#include <unistd.h>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>

#include "cli/commands.h"
#include "cli/live_processes.h"
#include "core/text.h"

namespace racache::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Arguments {
  pid_t pid = 0;
  double interval = 0;  // seconds; 0: once
  uint64_t count = 0;   // rounds; 0: until interrupted
  bool json = false;
};

double at(const Json& statistics, const char* pointer) {
  const Json::json_pointer p(pointer);
  return statistics.contains(p) && statistics[p].is_number()
             ? statistics[p].get<double>()
             : 0;
}

// What happened between two looks; from the start if there is no earlier one.
class Change {
 public:
  Change(const Json& now, const Json* before) : now_(now), before_(before) {
    // Another program under the same number, by exec(3).
    if (before != nullptr && of("/seconds") < 0) before_ = nullptr;
  }
  double of(const char* pointer) const {
    return at(now_, pointer) - (before_ != nullptr ? at(*before_, pointer) : 0);
  }
  double rate(const char* pointer) const {
    const double seconds = of("/seconds");
    return seconds > 0 ? of(pointer) / seconds : 0;
  }
  double ratio(const char* part, const char* whole) const {
    return of(whole) > 0 ? of(part) / of(whole) : 0;
  }

 private:
  const Json& now_;
  const Json* before_;
};

void print_head() {
  printf("%7s %-15s %9s %5s %9s %9s %7s %8s %8s %6s %7s %7s\n", "pid",
         "program", "reads/s", "hit%", "read MB/s", "dev MB/s", "dev/app",
         "used", "limit", "files", "breaks", "wait%");
}

std::string human(double bytes) {
  TextBuffer<32> text;
  text.human_bytes(static_cast<uint64_t>(bytes));
  return text.c_str();
}

void print_line(const LiveProcess& process, const Json* before) {
  constexpr double kMega = 1e6;
  const Json& now = process.statistics;
  const Change change(now, before);
  const std::string program = now.value("program", "?");
  printf(
      "%7d %-15.15s %9.0f %5.1f %9.1f %9.1f %7.2f %8s %8s %6.0f %7.0f "
      "%7.1f\n",
      process.pid, program.c_str(), change.rate("/reads/calls"),
      100 * change.ratio("/reads/hits", "/reads/calls"),
      change.rate("/reads/bytes") / kMega, change.rate("/device/bytes") / kMega,
      change.ratio("/device/bytes", "/reads/bytes"),
      human(at(now, "/memory/used")).c_str(),
      human(at(now, "/memory/limit")).c_str(), at(now, "/files/adopted"),
      change.of("/files/lease_breaks"), 100 * change.rate("/waits/seconds"));
}

void print_json(const std::vector<LiveProcess>& processes) {
  Json all = Json::array();
  for (const LiveProcess& p : processes) all.push_back(p.statistics);
  std::cout << all.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

class Watch {
 public:
  explicit Watch(const Arguments& arguments)
      : arguments_(arguments), directory_(live_directory()) {}

  // False when there is nothing to be seen.
  bool once() {
    const auto processes = live_processes(directory_, arguments_.pid);
    if (arguments_.json) {
      print_json(processes);
    } else {
      print_table(processes);
    }
    std::cout.flush();
    fflush(stdout);
    return !processes.empty();
  }
  void explain() const {
    std::cerr << "racache: "
              << (arguments_.pid != 0
                      ? "process " + std::to_string(arguments_.pid)
                      : std::string("no process"))
              << " writes no live statistics to " << directory_
              << "; start it by: racache run --live on -- PROGRAM\n";
  }

 private:
  void print_table(const std::vector<LiveProcess>& processes) {
    constexpr unsigned kScreen = 20;  // lines between heads
    std::map<pid_t, Json> seen;
    for (const LiveProcess& p : processes) {
      if (lines_++ % kScreen == 0) print_head();
      const auto before = before_.find(p.pid);
      print_line(p, before == before_.end() ? nullptr : &before->second);
      seen[p.pid] = p.statistics;
    }
    before_ = std::move(seen);
  }

  Arguments arguments_;
  std::string directory_;
  std::map<pid_t, Json> before_;
  unsigned lines_ = 0;
};

int watch(const Arguments& arguments) {
  Watch view(arguments);
  bool any = view.once();
  for (uint64_t round = 1; arguments.interval > 0; ++round) {
    if (round == arguments.count || std::cout.fail() || ferror(stdout)) break;
    if (arguments.pid != 0 && !any) break;  // it ended
    usleep(static_cast<useconds_t>(arguments.interval * 1e6));
    any = view.once();
  }
  if (any || (arguments.pid != 0 && arguments.interval > 0)) return 0;
  view.explain();
  return 1;
}

}  // namespace

void add_stat_command(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand(
      "stat", "what the caches of running processes do (RACACHE_LIVE)");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("PID", arguments->pid, "only this process; default: all")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("-i,--interval", arguments->interval,
                   "look again every so many seconds")
      ->check(CLI::Range(0.1, 3600.0));
  command->add_option("-n,--count", arguments->count,
                      "end after so many looks; default: never");
  command->add_flag("--json", arguments->json, "everything, as JSON");
  command->callback([arguments, &status] { status = watch(*arguments); });
}

}  // namespace racache::cli
