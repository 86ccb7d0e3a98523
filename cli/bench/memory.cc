// SPDX-License-Identifier: MIT
#include "cli/bench/memory.h"

#include <algorithm>
#include <cstring>
#include <fstream>

#include "cli/size.h"
#include "core/system_limits.h"

namespace racache::cli::bench {
namespace {

// What the kernel could give without swapping, within the control groups'
// limits.
uint64_t available() {
  const uint64_t most = limits::read_memory().usable();
  std::ifstream file("/proc/meminfo");
  for (std::string name; file >> name;) {
    uint64_t kib;
    if (name == "MemAvailable:" && file >> kib)
      return std::min(kib << 10, most);
  }
  return most;
}

uint64_t caches(const Row& row) {
  return std::strcmp(row.workload, "processes") == 0 ? row.threads : 1;
}

}  // namespace

uint64_t cache_bytes(uint64_t file_size) {
  return (file_size + file_size / 8) / kMiB * kMiB + 64 * kMiB;
}

std::string lack_of_memory(const Row& row, uint64_t size) {
  const uint64_t needed = caches(row) * cache_bytes(row.file_size(size));
  const uint64_t there = available();
  if (needed <= there) return "";
  return "--size " + size_text(size) + ": " + row.name + " needs " +
         std::to_string(needed / kMiB) + " MiB of memory, " +
         std::to_string(there / kMiB) + " MiB are available";
}

}  // namespace racache::cli::bench
