// SPDX-License-Identifier: MIT
// The tables that people read.
#include <sys/utsname.h>
#include <unistd.h>
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "cli/bench/bench.h"
#include "cli/bench/table.h"

namespace racache::cli::bench {
namespace {

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

void print_machine(const Options& options, const Lab& lab) {
  utsname name{};
  uname(&name);
  const Device& device = lab.device();
  const double memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
                        static_cast<double>(sysconf(_SC_PAGESIZE));
  std::cout << "racache " << RACACHE_VERSION << " bench: " << processor()
            << ", " << sysconf(_SC_NPROCESSORS_ONLN) << " cores, "
            << format("%.0f GiB, ", memory / (1 << 30)) << name.sysname << ' '
            << name.release << '\n'
            << device.file_system << " on "
            << (device.name.empty() ? "an unknown device" : device.name)
            << (device.backing.empty() ? "" : " over " + device.backing)
            << "; file of " << options.bytes() / kMiB << " MiB; "
            << options.run_count() << " runs each, in turn; medians"
            << "\n\n";
}

void print_notes(const Lab& lab) {
  for (const std::string& note : lab.notes()) {
    std::cout << "note: " << note << '\n';
  }
  std::cout << R"(
figures: seconds, but MB/s of fio-*, MiB/s of cached-4k, ops/s of threads-* and
  db-*; in brackets the least and the most. racache: its memory populated and
  the engine started before the measurement. fresh: both within it. x: times as
  fast as the kernel. holds: see "what must hold".
requests, MiB: of the device, by its own count. faults, user, sys: of the
  measured program alone. folios: order:count, of the first run; the kernel
  shows its own to root alone (/proc/kpageflags).
)";
}

bool colours() {
  return isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
}

std::string spread_text(const Spread& s, bool seconds) {
  return figure_text(s.median, seconds) + " (" + figure_text(s.least, seconds) +
         ".." + figure_text(s.most, seconds) + ")";
}

std::string summary(const std::vector<Verdict>& verdicts) {
  const auto holds = [](const Verdict& v) { return v.holds; };
  if (verdicts.empty()) return "-";
  return std::all_of(verdicts.begin(), verdicts.end(), holds) ? "yes" : "NO";
}

void print_figures(const std::vector<Measured>& all) {
  Table table(
      {"<row", "<published", "kernel", "racache", "x", "fresh", "x", "<holds"});
  for (const Measured& m : all) {
    const bool seconds = m.row->counts_seconds();
    if (m.runs.size() < 3) {
      table.add({m.row->name, m.row->published, "-", "-"});
      continue;
    }
    table.add({m.row->name, m.row->published,
               spread_text(m.runs[0].figure(), seconds),
               spread_text(m.runs[1].figure(), seconds), times(m.ratio(1)),
               figure_text(m.runs[2].figure().median, seconds),
               times(m.ratio(2)), summary(judge(m, all))});
  }
  table.print(std::cout);
}

std::string folios_text(const Runs& runs) {
  const Sample& first = runs.samples[0];
  if (runs.side.preloaded) return orders_text(first.counts.folios);
  return first.kernel_folios.known ? orders_text(first.kernel_folios.by_order)
                                   : "not known";
}

void add_counts(Table& table, const std::string& name, const Runs& runs) {
  const auto median = [&](auto get) { return runs.of(get).median; };
  const double requests = median([](const Sample& s) { return s.requests; });
  const double bytes = median([](const Sample& s) { return s.bytes; });
  table.add({name, runs.side.name, requests < 0 ? "-" : thousands(requests),
             mebibytes(bytes),
             thousands(median([](const Sample& s) { return s.faults; })),
             format("%.3f", median([](const Sample& s) { return s.user; })),
             format("%.3f", median([](const Sample& s) { return s.system; })),
             folios_text(runs)});
}

void print_counts(const std::vector<Measured>& all) {
  Table table({"<row", "<side", "requests", "MiB", "faults", "user s", "sys s",
               "<folios by order"});
  for (const Measured& m : all) {
    for (const Runs& runs : m.runs) {
      const bool first = &runs == &m.runs[0];
      add_counts(table, first ? m.row->name : "", runs);
    }
  }
  std::cout << '\n';
  table.print(std::cout);
}

void print_verdicts(const std::vector<Measured>& all) {
  const bool colour = colours();
  std::cout << "\nwhat must hold:\n";
  for (const Measured& m : all) {
    if (!m.skipped.empty()) {
      std::cout << "  " << m.row->name << ": " << m.skipped << '\n';
    }
    if (!m.failed.empty()) {
      std::cout << "  " << m.row->name << ", " << m.failed << '\n';
    }
    for (const Verdict& v : judge(m, all)) {
      const char* mark = v.holds ? "ok   " : "MISS ";
      const char* on = !colour ? "" : v.holds ? "\033[32m" : "\033[31m";
      std::cout << "  " << on << mark << (colour ? "\033[0m" : "")
                << m.row->name << ": " << v.what << ": " << v.found << '\n';
    }
  }
  std::cout << '\n';
}

}  // namespace

void print_tables(const Options& options, const Lab& lab,
                  const std::vector<Measured>& all) {
  print_machine(options, lab);
  print_figures(all);
  print_counts(all);
  print_verdicts(all);
  print_notes(lab);
}

}  // namespace racache::cli::bench
