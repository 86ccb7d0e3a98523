// SPDX-License-Identifier: MIT
// The files that the workloads read, in a directory of their own which goes
// away with its object.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace racache::cli::bench {

class WorkDirectory {
 public:
  explicit WorkDirectory(const std::string& parent);
  ~WorkDirectory();
  WorkDirectory(const WorkDirectory&) = delete;
  WorkDirectory& operator=(const WorkDirectory&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  // A file of random bytes; made at the first call. One file of another size
  // takes the place of what was there before.
  const std::string& data(uint64_t size);
  // 64 KiB, for the warm-up.
  const std::string& warm();
  // RACACHE_STATS for a process whose statistics are to be taken.
  [[nodiscard]] std::string statistics_option() const;
  // Removes the statistics that lie there, and returns their texts.
  std::vector<std::string> take_statistics();

 private:
  std::string path_, data_, warm_, statistics_;
  uint64_t data_size_ = 0;
};

}  // namespace racache::cli::bench
