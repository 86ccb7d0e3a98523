// SPDX-License-Identifier: MIT
#include "cli/live_processes.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>

#include "core/config.h"
#include "core/log.h"

namespace racache::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// A program that was replaced by exec(3) leaves a file that nobody renews.
constexpr time_t kFreshSeconds = 5;

// The pid of "PID.json"; 0 for any other name.
pid_t pid_of(const fs::path& file) {
  const std::string stem = file.stem().string();
  pid_t pid = 0;
  const auto [end, error] =
      std::from_chars(stem.data(), stem.data() + stem.size(), pid);
  const bool whole = error == std::errc{} && end == stem.data() + stem.size();
  return whole && pid > 0 && file.extension() == ".json" ? pid : 0;
}

bool gone(pid_t pid) { return kill(pid, 0) != 0 && errno == ESRCH; }

bool stopped(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(stat, line);
  const size_t state = line.rfind(") ");
  return state != line.npos && state + 2 < line.size() &&
         (line[state + 2] == 'T' || line[state + 2] == 't');
}

bool fresh(const fs::path& file, pid_t pid) {
  struct stat st;
  return lstat(file.c_str(), &st) == 0 && S_ISREG(st.st_mode) &&
         st.st_uid == geteuid() &&
         (st.st_mtime + kFreshSeconds >= time(nullptr) || stopped(pid));
}

std::optional<LiveProcess> read_process(const fs::path& file) {
  const pid_t pid = pid_of(file);
  if (pid == 0) return {};
  std::error_code error;
  if (gone(pid)) {
    fs::remove(file, error);
    return {};
  }
  if (!fresh(file, pid)) return {};
  std::ifstream in(file);
  Json statistics = Json::parse(in, nullptr, false);
  if (!statistics.is_object()) return {};
  return LiveProcess{pid, std::move(statistics)};
}

}  // namespace

std::string live_directory() {
  // The same code as in the library, so that both look in the same place.
  std::vector<const char*> environment;
  for (char** e = environ; *e != nullptr; ++e) environment.push_back(*e);
  const bool named = std::getenv("RACACHE_LIVE") != nullptr;
  if (!named) environment.push_back("RACACHE_LIVE=on");
  environment.push_back(nullptr);
  log::init(LogLevel::kError);
  Config config;
  load_config(config, environment.data());
  TextBuffer<4096> path;
  racache::live_directory(config, path);
  return path.c_str();
}

std::vector<LiveProcess> live_processes(const std::string& directory,
                                        pid_t pid) {
  std::vector<LiveProcess> processes;
  std::error_code error;
  for (fs::directory_iterator i(directory, error), end; !error && i != end;
       i.increment(error)) {
    if (pid != 0 && pid_of(i->path()) != pid) continue;
    if (auto process = read_process(i->path())) {
      processes.push_back(std::move(*process));
    }
  }
  std::sort(processes.begin(), processes.end(),
            [](const auto& a, const auto& b) { return a.pid < b.pid; });
  return processes;
}

}  // namespace racache::cli
