// SPDX-License-Identifier: MIT
// Measures a region of a program: time, processor time, page faults, and what
// the device did meanwhile.
#pragma once

#include <sys/resource.h>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace racache::cli::bench {

// The first, third and ninth number of /sys/class/block/X/stat.
struct DeviceCount {
  bool known = false;
  int64_t reads = 0;
  int64_t sectors = 0;
  int64_t in_flight = 0;
};
[[nodiscard]] DeviceCount read_device(const std::string& stat_path);
// Waits until the device has nothing to do, 200 ms at most: reads that were
// begun ahead of need belong to who began them.
DeviceCount settle_device(const std::string& stat_path);

struct Usage {
  double user = 0, system = 0;
  int64_t faults = 0;
};
[[nodiscard]] Usage usage_of(int who);
[[nodiscard]] Usage to_usage(const rusage& u);
[[nodiscard]] Usage operator-(const Usage& a, const Usage& b);
[[nodiscard]] double now();  // seconds, monotonic

class Meter {
 public:
  explicit Meter(std::string stat_path) : stat_path_(std::move(stat_path)) {}
  void begin();
  void end();
  // Instead of this process's: of workers that measured themselves.
  void set_usage(const Usage& usage) { usage_ = usage; }
  void set_operations(double n) { operations_ = n; }
  [[nodiscard]] nlohmann::json result() const;

 private:
  std::string stat_path_;
  DeviceCount device_before_, device_after_;
  Usage usage_;
  double begin_ = 0, seconds_ = 0;
  double operations_ = 0;
};

}  // namespace racache::cli::bench
