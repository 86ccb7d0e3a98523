// SPDX-License-Identifier: MIT
// The block device behind a directory: its statistics, its settings, and how
// to make files on it cold.
#pragma once

#include <string>
#include <vector>

namespace racache::cli::bench {

struct Device {
  std::string name;         // "sda1"; empty: there is none to be seen
  std::string stat_path;    // /sys/class/block/NAME/stat
  std::string queue;        // /sys/class/block/DISK/queue
  std::string read_ahead;   // the file with what open(2) copies
  std::string backing;      // a loop device's file
  std::string file_system;  // "ext4"
  bool loop = false;
};
// Partitions, device mappers and btrfs's anonymous device numbers included.
[[nodiscard]] Device find_device(const std::string& directory);

// Sets what a row needs, where that disturbs nobody: as root, on a loop
// device. Puts back what was there.
class DeviceSettings {
 public:
  explicit DeviceSettings(const Device& device);
  ~DeviceSettings();
  DeviceSettings(const DeviceSettings&) = delete;
  DeviceSettings& operator=(const DeviceSettings&) = delete;

  [[nodiscard]] bool possible() const { return possible_; }
  // False when the device does not take them.
  bool set(unsigned read_ahead_kb, unsigned max_sectors_kb);

 private:
  std::string read_ahead_, max_sectors_;  // paths
  std::string old_read_ahead_, old_max_sectors_;
  bool possible_ = false;
};

// Drops the kernel's cache of the files and of the loop device's own file; as
// root, of everything.
void make_cold(const Device& device, const std::vector<std::string>& files);

}  // namespace racache::cli::bench
