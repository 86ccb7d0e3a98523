// SPDX-License-Identifier: MIT
// The command finds its library relative to itself, so that a package unpacked
// anywhere, and a build tree, work without being configured.
#include "cli/library.h"

#include <unistd.h>
#include <cstdlib>
#include <filesystem>

namespace racache::cli {
namespace {

namespace fs = std::filesystem;
constexpr const char* kName = "libracache.so";

fs::path own_directory() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path() : self.parent_path();
}

std::vector<fs::path> places() {
  if (const char* named = std::getenv("RACACHE_LIBRARY"); named && *named) {
    return {named};  // and nowhere else: a typing error must not go unseen
  }
  const fs::path here = own_directory();
  if (here.empty()) return {};
  return {here / RACACHE_LIBDIR / kName,
          here / RACACHE_LIBDIR / "racache" / kName, here / kName,
          here / ".." / "preload" / kName};
}

}  // namespace

Library find_library() {
  Library found;
  for (const fs::path& place : places()) {
    std::error_code error;
    const fs::path path = fs::weakly_canonical(fs::absolute(place), error);
    found.tried.push_back(error ? place.string() : path.string());
    if (error || access(path.c_str(), R_OK) != 0) continue;
    found.path = path.string();
    // The dynamic linker separates LD_PRELOAD by both, without any escape.
    if (found.path.find_first_of(": ") != std::string::npos) {
      found.problem = "its path contains a space or a colon";
    }
    break;
  }
  return found;
}

}  // namespace racache::cli
