// SPDX-License-Identifier: MIT
// A program that reads a file in one of a few manners and tells how long it
// took. What it measures is what its libc calls are bound to: the kernel, or
// the library that is preloaded. harness.py starts and compares them.
//
// It prints "ready" when all is set up, then one JSON line for each line on
// its standard input.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "perf/options.h"

namespace {

using perf::Options;
using Clock = std::chrono::steady_clock;

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

uint64_t ns_since(Clock::time_point begin) {
  return static_cast<uint64_t>(
      std::chrono::nanoseconds(Clock::now() - begin).count());
}

// A permutation of 0 .. 2^bits - 1 that looks random, at a few instructions.
class Shuffle {
 public:
  explicit Shuffle(uint64_t power_of_two)
      : mask_(power_of_two - 1),
        shift_((64 - __builtin_clzll(mask_ | 1)) / 2 + 1) {}
  uint64_t operator()(uint64_t i) const {
    i = (i * 0x9e3779b97f4a7c15u + 0x7f4a7c15u) & mask_;
    i ^= i >> shift_;
    return (i * 0xd1342543de82ef95u) & mask_;
  }

 private:
  uint64_t mask_;
  unsigned shift_;
};

// What one thread found.
struct Result {
  uint64_t bytes = 0;
  std::vector<uint32_t> hit_ns;
};

struct Source {
  int fd = -1;
  const char* memory = nullptr;  // --via memory
};

struct State {
  const Options& options;
  Source source;
  uint64_t first;  // index of the first block of this round
};

char* buffer_of(size_t size) {
  void* memory = std::aligned_alloc(4096, (size + 4095) / 4096 * 4096);
  std::memset(memory, 1, size);
  return static_cast<char*>(memory);
}

// Blocks [first + thread, ...) in steps of the number of threads, each handed
// to `one` as a byte offset.
template <class One>
uint64_t for_blocks(const State& state, unsigned thread, One one) {
  const Options& o = state.options;
  const Shuffle shuffle(o.blocks());
  const uint64_t mask = o.blocks() - 1;
  uint64_t done = 0;
  for (uint64_t i = thread; i < o.calls; i += o.threads) {
    const uint64_t at = state.first + i;
    one((o.random ? shuffle(at & mask) : at & mask) * o.size);
    ++done;
  }
  return done;
}

uint64_t by_pread(const State& state, unsigned thread, char* to) {
  const size_t size = state.options.size;
  const int fd = state.source.fd;
  return size * for_blocks(state, thread, [=](uint64_t offset) {
           if (pread(fd, to, size, static_cast<off_t>(offset)) !=
               static_cast<ssize_t>(size)) {
             die("pread");
           }
         });
}

uint64_t by_memcpy(const State& state, unsigned thread, char* to) {
  const size_t size = state.options.size;
  const char* from = state.source.memory;
  return size * for_blocks(state, thread, [=](uint64_t offset) {
           std::memcpy(to, from + offset, size);
           asm volatile("" : : "r"(to) : "memory");
         });
}

// Sequential: from where the last round ended.
uint64_t by_read(const State& state, unsigned, char* to) {
  const Options& o = state.options;
  const int fd = state.source.fd;
  uint64_t in_pass = state.first % o.blocks();
  lseek(fd, static_cast<off_t>(in_pass * o.size), SEEK_SET);
  for (uint64_t i = 0; i < o.calls; ++i) {
    if (in_pass++ == o.blocks()) {
      lseek(fd, 0, SEEK_SET);
      in_pass = 1;
    }
    if (read(fd, to, o.size) != static_cast<ssize_t>(o.size)) die("read");
  }
  return o.calls * o.size;
}

// Three reads of the hot first MiB, whose times are kept, to one elsewhere.
uint64_t mixed(const State& state, unsigned thread, char* to, Result& result) {
  constexpr uint64_t kHot = 1 << 20;
  const size_t size = state.options.size;
  const int fd = state.source.fd;
  uint64_t calls = 0;
  const auto hot = [&](uint64_t i) {
    const uint64_t at = i * 0x9e3779b97f4a7c15u % (kHot / size) * size;
    const auto begin = Clock::now();
    if (pread(fd, to, size, static_cast<off_t>(at)) < 0) die("pread");
    result.hit_ns.push_back(
        static_cast<uint32_t>(std::min<uint64_t>(ns_since(begin), UINT32_MAX)));
  };
  for_blocks(state, thread, [&](uint64_t offset) {
    for (int i = 0; i < 3; ++i) hot(++calls);
    ++calls;
    if (pread(fd, to, size, static_cast<off_t>(offset)) < 0) die("pread");
  });
  return calls * size;
}

void work(const State& state, unsigned thread, Result& result) {
  const Options& o = state.options;
  char* to = buffer_of(o.size);
  if (o.op == "mixed") {
    result.bytes = mixed(state, thread, to, result);
  } else if (o.via_memory) {
    result.bytes = by_memcpy(state, thread, to);
  } else if (o.op == "read") {
    result.bytes = by_read(state, thread, to);
  } else {
    result.bytes = by_pread(state, thread, to);
  }
  std::free(to);
}

// Bytes that this process had a device read.
uint64_t device_bytes() {
  FILE* io = std::fopen("/proc/self/io", "r");
  if (io == nullptr) return 0;
  unsigned long long bytes = 0;
  char line[128];
  while (std::fgets(line, sizeof line, io) != nullptr) {
    std::sscanf(line, "read_bytes: %llu", &bytes);
  }
  std::fclose(io);
  return bytes;
}

double seconds_of(const timeval& t) { return t.tv_sec + t.tv_usec / 1e6; }

// What a round used up, from construction to print().
class Usage {
 public:
  Usage() : device_(device_bytes()) {
    getrusage(RUSAGE_SELF, &before_);
    begin_ = Clock::now();
  }
  void stop() {
    seconds_ = static_cast<double>(ns_since(begin_)) / 1e9;
    getrusage(RUSAGE_SELF, &after_);
    device_ = device_bytes() - device_;
  }
  void print(uint64_t bytes, uint64_t calls) const {
    std::printf(
        "{\"seconds\": %.9f, \"bytes\": %llu, \"calls\": %llu, \"cpu\": %.6f, "
        "\"faults\": %ld, \"switches\": %ld, \"device_bytes\": %llu",
        seconds_, static_cast<unsigned long long>(bytes),
        static_cast<unsigned long long>(calls),
        seconds_of(after_.ru_utime) + seconds_of(after_.ru_stime) -
            seconds_of(before_.ru_utime) - seconds_of(before_.ru_stime),
        after_.ru_minflt - before_.ru_minflt,
        after_.ru_nvcsw - before_.ru_nvcsw,
        static_cast<unsigned long long>(device_));
  }

 private:
  uint64_t device_;
  double seconds_ = 0;
  rusage before_, after_;
  Clock::time_point begin_;
};

void print_hits(const std::vector<Result>& results) {
  std::vector<uint32_t> all;
  for (const Result& r : results) {
    all.insert(all.end(), r.hit_ns.begin(), r.hit_ns.end());
  }
  if (all.empty()) return;
  std::sort(all.begin(), all.end());
  const auto at = [&](double share) {
    return all[static_cast<size_t>(share *
                                   static_cast<double>(all.size() - 1))];
  };
  std::printf(
      ", \"hit_ns\": {\"p50\": %u, \"p99\": %u, \"p999\": %u, "
      "\"max\": %u}, \"median_of_thread\": [",
      at(.5), at(.99), at(.999), at(1));
  for (size_t t = 0; t < results.size(); ++t) {
    std::vector<uint32_t> own = results[t].hit_ns;
    const auto middle = own.begin() + static_cast<ptrdiff_t>(own.size() / 2);
    std::nth_element(own.begin(), middle, own.end());
    std::printf("%s%u", t == 0 ? "" : ", ", own.empty() ? 0 : *middle);
  }
  std::printf("]");
}

void round_of(const State& state) {
  const unsigned threads = state.options.threads;
  std::vector<Result> results(threads);
  std::vector<std::thread> others;
  std::barrier<> start(threads);
  for (unsigned t = 1; t < threads; ++t) {
    others.emplace_back([&, t] {
      start.arrive_and_wait();
      work(state, t, results[t]);
    });
  }
  start.arrive_and_wait();
  Usage usage;
  work(state, 0, results[0]);
  for (std::thread& other : others) other.join();
  usage.stop();
  uint64_t bytes = 0;
  for (const Result& r : results) bytes += r.bytes;
  usage.print(bytes, bytes / state.options.size);
  print_hits(results);
  std::printf("}\n");
  std::fflush(stdout);
}

long resident_pages() {
  long size = 0, resident = 0;
  FILE* statm = std::fopen("/proc/self/statm", "r");
  if (statm == nullptr) return 0;
  if (std::fscanf(statm, "%ld %ld", &size, &resident) != 2) resident = 0;
  std::fclose(statm);
  return resident;
}

// Until the cache's memory has been prepared, if that is under way.
void wait_until_steady() {
  int still = 0;
  for (long before = -1; still < 10;) {
    usleep(20000);
    const long now = resident_pages();
    still = now == before ? still + 1 : 0;
    before = now;
  }
}

void read_whole(int fd, uint64_t span) {
  constexpr size_t kPiece = 1 << 20;
  static char piece[kPiece];
  for (uint64_t at = 0; at < span; at += kPiece) {
    const ssize_t got = pread(fd, piece, kPiece, static_cast<off_t>(at));
    if (got <= 0) die("pread while loading");
  }
}

const char* load_into_memory(int fd, uint64_t span) {
  void* memory = mmap(nullptr, span + (2 << 20), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) die("mmap");
  const uintptr_t huge = 2 << 20;
  char* at = reinterpret_cast<char*>(
      (reinterpret_cast<uintptr_t>(memory) + huge - 1) & ~(huge - 1));
  madvise(at, span, MADV_HUGEPAGE);
  for (uint64_t done = 0; done < span;) {
    const ssize_t got =
        pread(fd, at + done, span - done, static_cast<off_t>(done));
    if (got <= 0) die("pread into memory");
    done += static_cast<uint64_t>(got);
  }
  return at;
}

int open_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) die(path.c_str());
  return fd;
}

Source prepare(const Options& o) {
  if (!o.warm_up.empty()) {
    const int other = open_file(o.warm_up);
    read_whole(other, 1 << 20);
    close(other);
    wait_until_steady();
  }
  Source source;
  source.fd = open_file(o.file);
  if (o.fadvise_random) posix_fadvise(source.fd, 0, 0, POSIX_FADV_RANDOM);
  if (o.load == "whole") {
    posix_fadvise(source.fd, 0, static_cast<off_t>(o.span),
                  POSIX_FADV_WILLNEED);
  }
  if (o.via_memory) {
    source.memory = load_into_memory(source.fd, o.span);
  } else if (!o.load.empty()) {
    for (int pass = 0; pass < 2; ++pass) read_whole(source.fd, o.span);
  }
  return source;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = perf::parse(argc, argv);
  State state{options, prepare(options), 0};
  std::puts("ready");
  std::fflush(stdout);
  char line[16];
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    round_of(state);
    state.first += options.calls;
  }
}
