// SPDX-License-Identifier: MIT
// The same as JSON; its keys are documented in the README.
#include <sys/utsname.h>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/bench/bench.h"

namespace racache::cli::bench {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Statistics& s) {
  return {{"calls", s.calls},
          {"lookups", s.lookups},
          {"device_requests", s.device_requests},
          {"device_bytes", s.device_bytes},
          {"overlap_skips", s.overlap_skips},
          {"trims_avoided", s.trims_avoided},
          {"order_fallbacks", s.order_fallbacks},
          {"evicted", s.evicted},
          {"folios", s.folio_count()},
          {"folios_by_order", s.folios}};
}

Json to_json(const Sample& s, bool library) {
  Json j = {{"seconds", s.seconds}, {"rate", s.rate},
            {"user", s.user},       {"system", s.system},
            {"faults", s.faults},   {"requests", s.requests},
            {"bytes", s.bytes}};
  if (library) j["racache"] = to_json(s.counts);
  if (s.kernel_folios.known) {
    j["folios_by_order"] = s.kernel_folios.by_order;
  }
  return j;
}

Json to_json(const Runs& runs) {
  const Spread figure = runs.figure();
  Json j = {{"figure",
             {{"median", figure.median},
              {"least", figure.least},
              {"most", figure.most}}},
            {"populated", runs.side.populated},
            {"disable", runs.side.disable},
            {"runs", Json::array()}};
  for (const Sample& s : runs.samples) {
    j["runs"].push_back(to_json(s, runs.side.preloaded));
  }
  return j;
}

Json describe(const Row& row) {
  return {{"name", row.name},
          {"title", row.title},
          {"published", row.published},
          {"unit", row.unit},
          {"read_ahead_kb", row.read_ahead_kb},
          {"max_sectors_kb", row.max_sectors_kb}};
}

Json to_json(const Measured& m, const std::vector<Measured>& all) {
  Json j = describe(*m.row);
  j["file_bytes"] = m.file_size;
  if (!m.skipped.empty()) j["skipped"] = m.skipped;
  if (!m.failed.empty()) j["failed"] = m.failed;
  j["sides"] = Json::object();
  for (const Runs& runs : m.runs) j["sides"][runs.side.name] = to_json(runs);
  j["ratio"] = m.ratio(1);
  j["ratio_fresh"] = m.ratio(2);
  j["must_hold"] = Json::array();
  for (const Verdict& v : judge(m, all)) {
    j["must_hold"].push_back(
        {{"what", v.what}, {"found", v.found}, {"holds", v.holds}});
  }
  return j;
}

void print(const Json& j) {
  std::cout << j.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace

void print_json(const Options& options, const Lab& lab,
                const std::vector<Measured>& all) {
  utsname name{};
  uname(&name);
  Json j = {
      {"version", RACACHE_VERSION},  {"kernel", name.release},
      {"device", lab.device().name}, {"file_system", lab.device().file_system},
      {"runs", options.run_count()}, {"notes", lab.notes()},
      {"rows", Json::array()}};
  for (const Measured& m : all) j["rows"].push_back(to_json(m, all));
  print(j);
}

void print_list(bool json) {
  Json all = Json::array();
  for (const Row& row : rows()) {
    Json j = describe(row);
    j["model_folios"] = {{"1024", row.model[0]}, {"256", row.model[1]}};
    all.push_back(j);
    if (!json) {
      std::cout << format("%-14s %s\n", row.name, row.title);
    }
  }
  if (json) print(all);
}

}  // namespace racache::cli::bench
