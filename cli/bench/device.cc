// SPDX-License-Identifier: MIT
#include "cli/bench/device.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace racache::cli::bench {
namespace {

namespace fs = std::filesystem;

std::string number_text(dev_t device) {
  return std::to_string(major(device)) + ":" + std::to_string(minor(device));
}

struct Mount {
  std::string type, source;
};

// The line of /proc/self/mountinfo whose third field is the device's number:
// ... 0:25 root point options [tags] - type source ...
Mount find_mount(dev_t device) {
  std::ifstream table("/proc/self/mountinfo");
  const std::string wanted = number_text(device);
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string id, parent, number, word;
    words >> id >> parent >> number;
    if (number != wanted) continue;
    while (words >> word && word != "-") {
    }
    Mount mount;
    words >> mount.type >> mount.source;
    return mount;
  }
  return {};
}

// btrfs and others have a number that belongs to no device; their source is.
dev_t block_number(dev_t device, const Mount& mount) {
  struct stat st;
  if (major(device) != 0) return device;
  if (stat(mount.source.c_str(), &st) != 0 || !S_ISBLK(st.st_mode)) return 0;
  return st.st_rdev;
}

std::string first_word(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

bool write_word(const std::string& path, const std::string& word) {
  std::ofstream file(path);
  file << word << std::flush;
  return file.good();
}

bool drop(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool done = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0;
  close(fd);
  return done;
}

}  // namespace

Device find_device(const std::string& directory) {
  Device device;
  struct stat st;
  if (stat(directory.c_str(), &st) != 0) return device;
  const Mount mount = find_mount(st.st_dev);
  device.file_system = mount.type;
  const dev_t number = block_number(st.st_dev, mount);
  std::error_code error;
  const fs::path self =
      fs::canonical("/sys/dev/block/" + number_text(number), error);
  if (number == 0 || error) return device;
  device.name = self.filename();
  device.stat_path = self / "stat";
  const fs::path disk =
      fs::exists(self / "partition", error) ? self.parent_path() : self;
  device.queue = disk / "queue";
  device.loop = fs::exists(disk / "loop", error);
  std::ifstream backing(disk / "loop" / "backing_file");
  std::getline(backing, device.backing);
  // File systems with a number of their own have a readahead of their own.
  device.read_ahead =
      "/sys/class/bdi/" + number_text(st.st_dev) + "/read_ahead_kb";
  if (!fs::exists(device.read_ahead, error)) {
    device.read_ahead = disk / "queue" / "read_ahead_kb";
  }
  return device;
}

DeviceSettings::DeviceSettings(const Device& device)
    : read_ahead_(device.read_ahead),
      max_sectors_(device.queue + "/max_sectors_kb") {
  // A file system with several devices, or with its own readahead that cannot
  // be found, would get something else than was asked for.
  if (geteuid() != 0 || !device.loop || device.file_system == "btrfs") return;
  old_read_ahead_ = first_word(read_ahead_);
  old_max_sectors_ = first_word(max_sectors_);
  possible_ = write_word(read_ahead_, old_read_ahead_) &&
              write_word(max_sectors_, old_max_sectors_);
}

DeviceSettings::~DeviceSettings() {
  if (!possible_) return;
  write_word(read_ahead_, old_read_ahead_);
  write_word(max_sectors_, old_max_sectors_);
}

bool DeviceSettings::set(unsigned read_ahead_kb, unsigned max_sectors_kb) {
  return possible_ &&
         write_word(max_sectors_, std::to_string(max_sectors_kb)) &&
         write_word(read_ahead_, std::to_string(read_ahead_kb));
}

void make_cold(const Device& device, const std::vector<std::string>& files) {
  for (const std::string& file : files) drop(file);
  if (!device.backing.empty()) drop(device.backing);
  if (geteuid() == 0) write_word("/proc/sys/vm/drop_caches", "3");
}

}  // namespace racache::cli::bench
