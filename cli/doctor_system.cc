// SPDX-License-Identifier: MIT
// The checks of the machine and of the process's limits, whatever it reads.
#include <linux/io_uring.h>
#include <linux/membarrier.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "cli/doctor.h"
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

// Each cached file keeps a descriptor of its own, in a table that the program
// does not see but to which its limit applies.
Check check_descriptors() {
  constexpr rlim_t kFew = 256;
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return {Verdict::kWarn, "descriptors", error_text(errno)};
  }
  if (limit.rlim_cur == RLIM_INFINITY) {
    return {Verdict::kOk, "descriptors", "unlimited"};
  }
  const bool few = limit.rlim_cur < kFew;
  return {few ? Verdict::kWarn : Verdict::kOk, "descriptors",
          "RLIMIT_NOFILE is " + std::to_string(limit.rlim_cur) +
              (few ? ": no more files than that are cached at a time" : "")};
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

}  // namespace

Checks check_system() {
  return {check_kernel(),      check_proc(),           check_uring(),
          check_membarrier(),  check_leases_enabled(), check_other_owners(),
          check_huge_pages(),  check_memory(),         check_address_space(),
          check_descriptors(), check_library()};
}

}  // namespace racache::cli
