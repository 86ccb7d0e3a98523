// SPDX-License-Identifier: MIT
#include "cli/bench/meter.h"

#include <unistd.h>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

namespace racache::cli::bench {

DeviceCount read_device(const std::string& stat_path) {
  DeviceCount count;
  if (stat_path.empty()) return count;
  std::ifstream file(stat_path);
  int64_t n[9];
  for (int64_t& value : n) file >> value;
  if (!file) return count;
  return {true, n[0], n[2], n[8]};
}

DeviceCount settle_device(const std::string& stat_path) {
  constexpr int kLooks = 40;
  constexpr useconds_t kPause = 5000;
  DeviceCount last = read_device(stat_path);
  for (int i = 0; last.known && i < kLooks; ++i) {
    usleep(kPause);
    const DeviceCount next = read_device(stat_path);
    const bool quiet = next.in_flight == 0 && next.reads == last.reads;
    last = next;
    if (quiet) break;
  }
  return last;
}

Usage to_usage(const rusage& u) {
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return {seconds(u.ru_utime), seconds(u.ru_stime), u.ru_minflt + u.ru_majflt};
}

Usage usage_of(int who) {
  rusage u{};
  getrusage(who, &u);
  return to_usage(u);
}

Usage operator-(const Usage& a, const Usage& b) {
  return {a.user - b.user, a.system - b.system, a.faults - b.faults};
}

double now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

void Meter::begin() {
  device_before_ = settle_device(stat_path_);
  usage_ = usage_of(RUSAGE_SELF);
  begin_ = now();
}

void Meter::end() {
  seconds_ = now() - begin_;
  usage_ = usage_of(RUSAGE_SELF) - usage_;
  device_after_ = settle_device(stat_path_);
}

nlohmann::json Meter::result() const {
  nlohmann::json r = {{"seconds", seconds_},
                      {"user", usage_.user},
                      {"system", usage_.system},
                      {"faults", usage_.faults},
                      {"operations", operations_}};
  if (device_before_.known && device_after_.known) {
    r["requests"] = device_after_.reads - device_before_.reads;
    r["bytes"] = (device_after_.sectors - device_before_.sectors) * 512;
  }
  return r;
}

}  // namespace racache::cli::bench
