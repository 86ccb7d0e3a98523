// SPDX-License-Identifier: MIT
// `racache bench --ablation`: the rules of the four patches one by one, each
// on the rows where it shows, with and without RACACHE_DISABLE.
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/bench/bench.h"
#include "cli/bench/table.h"

namespace racache::cli::bench {
namespace {

struct Rule {
  const char* name;  // as in RACACHE_DISABLE
  const char* counter;
  uint64_t Statistics::*count;
  const char* rows[3];
};
constexpr Rule kRules[] = {
    {"large_forced",
     "order_fallbacks",
     &Statistics::order_fallbacks,
     {"readahead-2m", "random-1m", "random-256k"}},
    {"half_window",
     "trims_avoided",
     &Statistics::trims_avoided,
     {"half-1m", "half-512k", nullptr}},
    {"single_lookup",
     "lookups",
     &Statistics::lookups,
     {"cached-loop", nullptr, nullptr}},
    {"overlap_skip",
     "overlap_skips",
     &Statistics::overlap_skips,
     {"threads-64k", "threads-4k", nullptr}},
};

void add_lines(Table& table, const Rule& rule, const Measured& m) {
  const bool seconds = m.row->counts_seconds();
  for (const Runs& runs : m.runs) {
    const bool on = &runs == &m.runs[0];
    const auto median = [&](auto get) { return runs.of(get).median; };
    const double requests =
        median([](const Sample& s) { return s.counts.device_requests; });
    const double count =
        median([&](const Sample& s) { return s.counts.*rule.count; });
    table.add({on ? rule.name : "", on ? m.row->name : "", runs.side.name,
               figure_text(runs.figure().median, seconds), m.row->unit,
               on ? "" : times(m.ratio(1)), thousands(requests),
               thousands(median(
                   [](const Sample& s) { return s.counts.folio_count(); })),
               std::string(rule.counter) + " " + thousands(count)});
  }
}

nlohmann::json to_json(const Rule& rule, const Measured& m) {
  nlohmann::json j = {{"rule", rule.name}, {"row", m.row->name}};
  for (const Runs& runs : m.runs) {
    const Statistics& s = runs.samples[0].counts;
    j[runs.side.name] = {{"figure", runs.figure().median},
                         {"requests", s.device_requests},
                         {"folios", s.folio_count()},
                         {rule.counter, s.*rule.count}};
  }
  return j;
}

}  // namespace

std::vector<Measured> run_ablation(const Options& options, Lab& lab) {
  Table table({"<rule", "<row", "<it is", "figure", "<unit", "off/on",
               "requests", "folios", "<its counter"});
  nlohmann::json all = nlohmann::json::array();
  std::vector<Measured> failures;
  for (const Rule& rule : kRules) {
    for (const char* name : rule.rows) {
      const Row* row = name == nullptr ? nullptr : find_row(name);
      if (row == nullptr || !options.wants(*row)) continue;
      const Measured m = lab.measure(
          *row, {{"on", true, true, ""}, {"off", true, true, rule.name}},
          rule.name);
      if (!m.failed.empty()) failures.push_back(m);
      if (!m.failed.empty() || !m.skipped.empty()) continue;
      add_lines(table, rule, m);
      all.push_back(to_json(rule, m));
    }
  }
  if (options.json) {
    std::cout << all.dump(2) << '\n';
    return failures;
  }
  table.print(std::cout);
  for (const std::string& note : lab.notes()) std::cout << note << '\n';
  std::cout << "figure: medians of " << options.run_count()
            << " runs in turn; off/on: how fast without the rule\n";
  return failures;
}

}  // namespace racache::cli::bench
