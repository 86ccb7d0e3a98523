// SPDX-License-Identifier: MIT
// Who stands in a lease's way. The kernel only says EAGAIN; /proc knows more,
// of one's own processes or, for root, of all.
#include <fcntl.h>
#include <sys/stat.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/doctor.h"

namespace racache::cli {
namespace {

namespace fs = std::filesystem;

bool is_number(const std::string& name) {
  return !name.empty() && name.find_first_not_of("0123456789") == name.npos;
}

// The line "flags:" of fdinfo(5), in octal; -1 when there is none.
long open_flags(const fs::path& process, const std::string& fd) {
  std::ifstream info(process / "fdinfo" / fd);
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("flags:")) {
      return std::strtol(line.c_str() + 6, nullptr, 8);
    }
  }
  return -1;
}

bool writes(const fs::path& process, const struct stat& file) {
  std::error_code error;
  for (fs::directory_iterator i(process / "fd", error), end; !error && i != end;
       i.increment(error)) {
    struct stat st;
    if (stat(i->path().c_str(), &st) != 0 || st.st_ino != file.st_ino ||
        st.st_dev != file.st_dev) {
      continue;
    }
    const long flags = open_flags(process, i->path().filename());
    if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> writers_of(const std::string& path) {
  struct stat file;
  std::vector<std::string> writers;
  if (stat(path.c_str(), &file) != 0) return writers;
  std::error_code error;
  for (fs::directory_iterator i("/proc", error), end; !error && i != end;
       i.increment(error)) {
    const std::string pid = i->path().filename();
    if (!is_number(pid) || !writes(i->path(), file)) continue;
    writers.push_back(first_line(i->path() / "comm") + " (pid " + pid + ")");
  }
  return writers;
}

}  // namespace racache::cli
