// SPDX-License-Identifier: MIT
// `racache doctor`: whether this machine, container and directory let racache
// work, and what it would do without where they do not.
#include "cli/doctor.h"

#include <linux/io_uring.h>
#include <linux/membarrier.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cli/commands.h"
#include "cli/library.h"
#include "core/config.h"
#include "core/log.h"
#include "core/system_limits.h"

namespace racache::cli {

std::string error_text(int err) {
  TextBuffer<64> name;
  name.error(err);
  return std::string(name.c_str()) + " (" + strerror(err) + ")";
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

namespace {

std::string human(uint64_t bytes) {
  TextBuffer<32> text;
  text.human_bytes(bytes);
  return text.c_str();
}

// close_range(CLOSE_RANGE_UNSHARE) came with Linux 5.9.
Check check_kernel() {
  utsname name;
  if (uname(&name) != 0) return {Verdict::kFail, "kernel", error_text(errno)};
  int major = 0;
  int minor = 0;
  sscanf(name.release, "%d.%d", &major, &minor);
  const bool old = major < 5 || (major == 5 && minor < 9);
  return {old ? Verdict::kFail : Verdict::kOk, "kernel",
          std::string(name.sysname) + " " + name.release + " " + name.machine +
              (old ? ": older than 5.9" : "")};
}

Check check_proc() {
  const std::string self =
      "/proc/self/task/" + std::to_string(syscall(SYS_gettid)) + "/fd/0";
  char target[16];
  if (readlink(self.c_str(), target, sizeof target) < 0 &&
      access("/proc/self/task", F_OK) != 0) {
    return {Verdict::kFail, "/proc",
            error_text(errno) + ": files cannot be reopened"};
  }
  return {Verdict::kOk, "/proc", "mounted"};
}

std::string uring_advice(int err) {
  const std::string sysctl = first_line("/proc/sys/kernel/io_uring_disabled");
  if (err == EPERM && !sysctl.empty() && sysctl != "0") {
    return "; kernel.io_uring_disabled is " + sysctl;
  }
  if (err == EPERM) return "; a seccomp filter, as containers have?";
  if (err == ENOMEM) return "; RLIMIT_MEMLOCK?";
  return "";
}

Check check_uring() {
  io_uring_params params;
  memset(&params, 0, sizeof params);
  const long fd = syscall(SYS_io_uring_setup, 4, &params);
  if (fd < 0) {
    const int err = errno;
    return {
        Verdict::kWarn, "io_uring",
        error_text(err) + uring_advice(err) + "; worker threads read instead"};
  }
  close(static_cast<int>(fd));
  return {Verdict::kOk, "io_uring", "allowed"};
}

Check check_membarrier() {
  const long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  if (commands < 0) {
    return {Verdict::kWarn, "membarrier",
            error_text(errno) + "; hits pay for a fence"};
  }
  const bool has = (commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0;
  return {
      has ? Verdict::kOk : Verdict::kWarn, "membarrier",
      has ? "private expedited" : "no private expedited; hits pay for a fence"};
}

Check check_leases_enabled() {
  const std::string value = first_line("/proc/sys/fs/leases-enable");
  if (value == "0") {
    return {Verdict::kFail, "leases", "fs.leases-enable is 0"};
  }
  return {Verdict::kOk, "leases",
          "enabled; a writer waits at most " +
              first_line("/proc/sys/fs/lease-break-time") +
              " s (fs.lease-break-time)"};
}

// F_SETLEASE: the file's owner, or CAP_LEASE.
Check check_other_owners() {
  constexpr int kCapLease = 28;
  std::ifstream status("/proc/self/status");
  unsigned long long effective = 0;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("CapEff:")) {
      sscanf(line.c_str(), "CapEff: %llx", &effective);
    }
  }
  const bool has = ((effective >> kCapLease) & 1) != 0;
  return {has ? Verdict::kOk : Verdict::kWarn, "other owners",
          has ? "CAP_LEASE: their files can be cached too"
              : "no CAP_LEASE: only files of user " +
                    std::to_string(geteuid()) + " are cached"};
}

Check check_huge_pages() {
  const std::string line =
      first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  const std::string word(limits::chosen_word(line));
  if (word == "always" || word == "madvise") {
    return {Verdict::kOk, "huge pages", word};
  }
  return {Verdict::kWarn, "huge pages",
          (word.empty() ? "not available" : word) +
              "; small pages are used, hits cost more"};
}

Check check_memory() {
  const limits::Memory memory = limits::read_memory();
  log::init(LogLevel::kWarn);
  Config config;
  load_config(config, environ);
  const std::string detail =
      "RAM " + human(memory.ram) + ", cgroup limit " +
      (memory.cgroup == limits::kUnlimited ? "none" : human(memory.cgroup)) +
      ", cache " + human(config.size_bytes);
  const bool enough = config.size_bytes <= memory.usable() / 2;
  return {enough ? Verdict::kOk : Verdict::kWarn, "memory",
          detail + (enough ? "" : ": more than half of it")};
}

Check check_address_space() {
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return {Verdict::kOk, "address space", "unlimited"};
  }
  return {Verdict::kWarn, "address space",
          "RLIMIT_AS is " + human(limit.rlim_cur) +
              ": the cache may get less than RACACHE_SIZE"};
}

Check check_library() {
  const Library library = find_library();
  if (library.path.empty()) {
    return {Verdict::kWarn, "library",
            "libracache.so not found; set RACACHE_LIBRARY for racache run"};
  }
  return {
      library.problem.empty() ? Verdict::kOk : Verdict::kWarn, "library",
      library.path + (library.problem.empty() ? "" : ": " + library.problem)};
}

Checks all_checks(const std::string& directory) {
  Checks checks{check_kernel(),         check_proc(),
                check_uring(),          check_membarrier(),
                check_leases_enabled(), check_other_owners(),
                check_huge_pages(),     check_memory(),
                check_address_space(),  check_library()};
  const Checks files = check_directory(directory);
  checks.insert(checks.end(), files.begin(), files.end());
  return checks;
}

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

}  // namespace

void add_doctor_command(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand(
      "doctor", "whether racache can work here; exit status 0 when it can");
  auto directory = std::make_shared<std::string>(".");
  auto json = std::make_shared<bool>(false);
  command->add_option("--dir", *directory,
                      "where the program's files are; default: here");
  command->add_flag("--json", *json, "as JSON");
  command->callback([directory, json, &status] {
    const Checks checks = all_checks(*directory);
    *json ? print_json(checks) : print_text(checks);
    for (const Check& c : checks) {
      if (c.verdict == Verdict::kFail) status = 1;
    }
  });
}

}  // namespace racache::cli
