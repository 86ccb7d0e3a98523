// SPDX-License-Identifier: MIT
// `racache doctor`: whether this machine, container and the places asked about
// let racache work, and what it would do without where they do not.
#include "cli/doctor.h"

#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"

namespace racache::cli {
namespace {

const char* word_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kWarn:
      return "warn";
    default:
      return "FAIL";
  }
}

void print_text(const Checks& checks) {
  for (const Check& c : checks) {
    std::cout << std::left << std::setw(6) << word_of(c.verdict)
              << std::setw(15) << c.name << c.detail << '\n';
  }
}

void print_json(const Checks& checks) {
  using Json = nlohmann::ordered_json;
  Json all = Json::array();
  for (const Check& c : checks) {
    all.push_back({{"name", c.name},
                   {"verdict", word_of(c.verdict)},
                   {"detail", c.detail}});
  }
  std::cout << all.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

int status_of(const Checks& checks) {
  Verdict worst = Verdict::kOk;
  for (const Check& c : checks) worst = std::max(worst, c.verdict);
  return static_cast<int>(worst);
}

Checks all_checks(std::vector<std::string> paths) {
  Checks checks = check_system();
  if (paths.empty()) paths.push_back(".");
  for (const std::string& path : paths) {
    const Checks more = check_path(path);
    checks.insert(checks.end(), more.begin(), more.end());
  }
  return checks;
}

}  // namespace

void add_doctor_command(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand(
      "doctor",
      "whether racache can work here; exit status 0: yes, 1: with less, 2: no");
  auto paths = std::make_shared<std::vector<std::string>>();
  auto json = std::make_shared<bool>(false);
  command->add_option("PATH,--dir", *paths,
                      "the program's files, or directories that have them; "
                      "default: here");
  command->add_flag("--json", *json, "as JSON");
  command->callback([paths, json, &status] {
    const Checks checks = all_checks(*paths);
    *json ? print_json(checks) : print_text(checks);
    std::cout.flush();
    status = std::cout.good() ? status_of(checks) : 2;
  });
}

}  // namespace racache::cli
