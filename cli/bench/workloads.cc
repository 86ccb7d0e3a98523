// SPDX-License-Identifier: MIT
#include "cli/bench/workloads.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <cerrno>
#include <charconv>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>

namespace racache::cli::bench {

void throw_errno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

int open_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw_errno(path);
  return fd;
}

void read_at(int fd, char* buffer, uint64_t bytes, uint64_t offset) {
  const ssize_t n = pread(fd, buffer, bytes, static_cast<off_t>(offset));
  if (n < 0) throw_errno("pread");
  if (static_cast<uint64_t>(n) != bytes) {
    throw std::runtime_error("pread: a short read");
  }
}

char* touched_buffer(uint64_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (p == MAP_FAILED) throw_errno("mmap");
  return static_cast<char*>(p);
}

void warm_up(const Job& job) {
  constexpr uint64_t kBytes = 64 << 10;  // the whole file, as one folio
  if (job.warm.empty()) return;
  const int fd = open_file(job.warm);
  posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
  read_at(fd, touched_buffer(kBytes), kBytes, 0);
}  // the file stays open: closing would be work in the measured region

namespace {

void hint_random(int fd) {
  if (const int error = posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM)) {
    errno = error;
    throw_errno("posix_fadvise");
  }
}

void stream(int fd, const Job& job, char* buffer) {
  for (uint64_t at = 0; at < job.size; at += job.block) {
    read_at(fd, buffer, std::min(job.block, job.size - at), at);
  }
}

// for (o = 0; o < size; o += step) readahead(fd, o, step), then all of it.
void readahead_workload(const Job& job, Meter& meter) {
  const int fd = open_file(job.file);
  char* buffer = touched_buffer(job.block);
  meter.begin();
  for (uint64_t at = 0; at < job.size; at += job.block) {
    if (readahead(fd, static_cast<off64_t>(at), job.block) != 0) {
      throw_errno("readahead");
    }
  }
  stream(fd, job, buffer);
  meter.end();
}

void hinted_stream_workload(const Job& job, Meter& meter) {
  const int fd = open_file(job.file);
  char* buffer = touched_buffer(job.block);
  meter.begin();
  hint_random(fd);
  stream(fd, job, buffer);
  meter.end();
}

void stream_workload(const Job& job, Meter& meter) {
  const int fd = open_file(job.file);
  char* buffer = touched_buffer(job.block);
  meter.begin();
  stream(fd, job, buffer);
  meter.end();
}

// for (i = 0; i < n; i++) pread(fd, buf, block, rnd() % (size/block) * block)
void random_reads(int fd, const Job& job, char* buffer) {
  SplitMix64 random(job.seed);
  const uint64_t places = job.size / job.block;
  for (uint64_t i = 0; i < job.count; ++i) {
    read_at(fd, buffer, job.block, random.next() % places * job.block);
  }
}

void random_workload(const Job& job, Meter& meter) {
  const int fd = open_file(job.file);
  char* buffer = touched_buffer(job.block);
  meter.begin();
  random_reads(fd, job, buffer);
  meter.end();
}

void hinted_random_workload(const Job& job, Meter& meter) {
  const int fd = open_file(job.file);
  char* buffer = touched_buffer(job.block);
  meter.begin();
  hint_random(fd);
  random_reads(fd, job, buffer);
  meter.end();
}

// One block of a mapping is asked for, then every page of it touched.
void willneed_workload(const Job& job, Meter& meter) {
  const int fd = open_file(job.file);
  meter.begin();
  void* p = mmap(nullptr, job.block, PROT_READ, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED) throw_errno("mmap");
  if (madvise(p, job.block, MADV_WILLNEED) != 0) throw_errno("madvise");
  const volatile char* bytes = static_cast<char*>(p);
  for (uint64_t at = 0; at < job.block; at += 4096) (void)bytes[at];
  meter.end();
}

// read(fd, b, 4096); while (read(fd, b, block) > 0);
void stream_behind_page_workload(const Job& job, Meter& meter) {
  const int fd = open_file(job.file);
  char* buffer = touched_buffer(job.block);
  meter.begin();
  if (read(fd, buffer, 4096) != 4096) throw_errno("read");
  while (read(fd, buffer, job.block) > 0) {
  }
  meter.end();
}

void warm_passes(int fd, const Job& job, char* buffer, Meter& meter) {
  meter.begin();
  for (uint64_t i = 0; i < job.passes; ++i) stream(fd, job, buffer);
  meter.end();
}

void warm_random_workload(const Job& job, Meter& meter) {
  char* buffer = touched_buffer(job.block);
  const int filler = open_file(job.file);
  hint_random(filler);
  stream(filler, job, buffer);
  warm_passes(open_file(job.file), job, buffer, meter);
}

void warm_stream_workload(const Job& job, Meter& meter) {
  char* buffer = touched_buffer(job.block);
  const int fd = open_file(job.file);
  stream(fd, job, buffer);
  warm_passes(open_file(job.file), job, buffer, meter);
}

// Filled, then read in small steps again and again.
void cached_workload(const Job& job, Meter& meter) {
  const int fd = open_file(job.file);
  char* buffer = touched_buffer(1 << 20);
  Job fill = job;
  fill.block = 1 << 20;
  stream(fd, fill, buffer);
  meter.begin();
  for (uint64_t i = 0; i < job.passes; ++i) {
    lseek(fd, 0, SEEK_SET);
    for (uint64_t at = 0; at < job.size; at += job.block) {
      if (read(fd, buffer, job.block) <= 0) throw_errno("read");
    }
  }
  meter.end();
}

// Nothing but the warm-up, to know what that costs.
void nothing_workload(const Job&, Meter& meter) {
  meter.begin();
  meter.end();
}

struct Workload {
  const char* name;
  void (*run)(const Job& job, Meter& meter);
};
constexpr Workload kWorkloads[] = {
    {"readahead", readahead_workload},
    {"hinted_stream", hinted_stream_workload},
    {"stream", stream_workload},
    {"random", random_workload},
    {"hinted_random", hinted_random_workload},
    {"willneed", willneed_workload},
    {"stream_behind_page", stream_behind_page_workload},
    {"warm_random", warm_random_workload},
    {"warm_stream", warm_stream_workload},
    {"cached", cached_workload},
    {"threads", threads_workload},
    {"processes", processes_workload},
    {"nothing", nothing_workload},
};

bool set_number(Job& job, const std::string& key, const std::string& value) {
  struct Field {
    const char* name;
    uint64_t Job::*field;
  };
  constexpr Field kFields[] = {
      {"size", &Job::size},     {"block", &Job::block},
      {"count", &Job::count},   {"threads", &Job::threads},
      {"passes", &Job::passes}, {"seed", &Job::seed}};
  for (const Field& f : kFields) {
    if (key != f.name) continue;
    const char* end = value.data() + value.size();
    const auto [rest, error] = std::from_chars(value.data(), end, job.*f.field);
    return error == std::errc() && rest == end;
  }
  return false;
}

[[noreturn]] void refuse(const std::string& what) {
  throw CLI::ValidationError("bench-workload", what);
}

void set(Job& job, const std::string& argument) {
  const size_t equals = argument.find('=');
  const std::string key = argument.substr(0, equals);
  const std::string value =
      equals == std::string::npos ? "" : argument.substr(equals + 1);
  if (key == "file") {
    job.file = value;
  } else if (key == "warm") {
    job.warm = value;
  } else if (key == "stat") {
    job.stat = value;
  } else if (!set_number(job, key, value)) {
    refuse(argument);
  }
}

// `nothing` reads nothing; the others' requests go by blocks of the file.
void check(const Job& job, const std::string& name) {
  if (name == "nothing" || (job.block != 0 && job.block <= job.size)) return;
  refuse("block=" + std::to_string(job.block) + ": 1 to size, which is " +
         std::to_string(job.size));
}

}  // namespace

int run_workload(const std::vector<std::string>& arguments) {
  if (arguments.empty()) refuse("NAME");
  Job job;
  for (size_t i = 1; i < arguments.size(); ++i) set(job, arguments[i]);
  for (const Workload& workload : kWorkloads) {
    if (arguments[0] != workload.name) continue;
    check(job, arguments[0]);
    warm_up(job);
    Meter meter(job.stat);
    workload.run(job, meter);
    std::cout << meter.result().dump() << std::endl;
    return 0;
  }
  refuse("no " + arguments[0]);
}

}  // namespace racache::cli::bench
