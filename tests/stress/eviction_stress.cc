// SPDX-License-Identifier: MIT
// Eviction while several threads read many files through a cache that holds a
// small part of them: every byte of every read is compared, and memory is
// watched meanwhile. With a FAULT the test proves that it can fail: it passes
// only if that fault, and no other, is noticed.
//
//   eviction_stress POLICY SECONDS [none|byte|memory|idle [SEED]]
//
//   byte    one byte of a file is another than the readers think
//   memory  someone takes more memory than the cache may
//   idle    the cache is so large that nothing has to go
//
// The real engine beneath the interposer's parts; files in the current
// directory.
#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/engine.h"
#include "core/hit.h"
#include "core/option_table.h"
#include "unit/ready_preload.h"
#include "unit/tracked_calls.h"

using namespace racache;
using namespace tracked_test;

namespace {

constexpr size_t kMiB = 1 << 20;
constexpr unsigned kFiles = 40, kFavourites = 5, kReaders = 4;
constexpr size_t kFileBytes = kMiB + 12345;  // ends within a page and a word
constexpr size_t kMostRead = 64 << 10;
constexpr size_t kIdleCache = 256 * kMiB;  // holds all files
constexpr double kPatience = 60;           // seconds, beyond those asked for
constexpr size_t kSlack = 24 * kMiB;  // threads, buffers, rings, book-keeping

// The sanitizers' own memory grows with what is touched: there the engine's
// count is all that can be watched.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kCountedByKernel = false;
#else
constexpr bool kCountedByKernel = true;
#endif

enum Fault : unsigned { kNone, kByte, kMemory, kIdle };
constexpr const char* kFaults[] = {"none", "byte", "memory", "idle"};

std::atomic<bool> stop;
std::atomic<unsigned long> reads, wrong_bytes, too_much_memory;

uint64_t word_of(unsigned file, size_t place) {
  uint64_t z = (uint64_t{file} << 40 | place) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 29)) * 0xbf58476d1ce4e5b9;
  return z ^ (z >> 32);
}

// Bytes [offset, offset + size) of the file, at an address of the buffer.
const char* expected(unsigned file, size_t offset, size_t size,
                     std::vector<uint64_t>& buffer) {
  const size_t first = offset / 8, last = (offset + size - 1) / 8;
  for (size_t i = first; i <= last; ++i) buffer[i - first] = word_of(file, i);
  return reinterpret_cast<const char*>(buffer.data()) + offset % 8;
}

std::string name_of(unsigned file) {
  return "eviction_stress." + std::to_string(getpid()) + "." +
         std::to_string(file);
}

// Most of them are in the kernel's cache, from where they are filled.
void make_file(unsigned file, bool wrong_byte) {
  std::vector<uint64_t> words(kFileBytes / 8 + 1);
  (void)expected(file, 0, kFileBytes, words);
  char* bytes = reinterpret_cast<char*>(words.data());
  if (wrong_byte) bytes[kFileBytes / 2] ^= 1;
  const int fd = ::open(name_of(file).c_str(), O_WRONLY | O_CREAT, 0600);
  if (fd < 0 || ::write(fd, bytes, kFileBytes) != ssize_t{kFileBytes}) abort();
  if (file % 4 == 0) {
    fdatasync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  }
  ::close(fd);
}

class Reader {
 public:
  explicit Reader(uint64_t seed)
      : random_(seed), got_(kMostRead), wanted_(kMostRead / 8 + 2) {
    for (unsigned i = 0; i < kFiles; ++i) fds_[i] = open_tracked(name_of(i));
  }
  ~Reader() {
    for (const int fd : fds_) close_tracked(fd);
  }
  void go_on() {
    while (!stop) {
      const unsigned file = choose();
      switch (random_() % 64) {
        case 0:
          close_tracked(fds_[file]);
          fds_[file] = open_tracked(name_of(file));
          break;
        case 1:
          serve::dontneed(fds_[file], 0, kFileBytes / 2);
          break;
        case 2:
          (void)serve::willneed(fds_[file], 0, kFileBytes);
          break;
        case 3:
          in_order(file);
          break;
        default:
          read_some(file, random_() % kFileBytes, 1 + random_() % kMostRead);
      }
    }
  }

 private:
  // A few that are worth keeping, among many that are not.
  unsigned choose() {
    const unsigned of = random_() % 2 == 0 ? kFavourites : kFiles;
    return static_cast<unsigned>(random_() % of);
  }
  void in_order(unsigned file) {
    for (size_t at = 0; at < kFileBytes && !stop; at += kMostRead) {
      read_some(file, at, kMostRead);
    }
  }
  void read_some(unsigned file, size_t offset, size_t size) {
    const ssize_t n =
        do_pread(fds_[file], got_.data(), size, static_cast<off_t>(offset));
    const size_t there = std::min(size, kFileBytes - offset);
    ++reads;
    if (n == static_cast<ssize_t>(there) &&
        memcmp(got_.data(), expected(file, offset, there, wanted_), there) ==
            0) {
      return;
    }
    if (wrong_bytes++ == 0) {
      std::printf("file %u, %zu bytes at %zu: %zd read\n", file, size, offset,
                  n);
    }
  }

  std::mt19937_64 random_;
  std::vector<char> got_;
  std::vector<uint64_t> wanted_;
  int fds_[kFiles];
};

Snapshot snapshot_now() {
  Snapshot snapshot{};
  if (Engine* engine = engine::current()) {
    engine::fill_snapshot(*engine, snapshot);
  }
  return snapshot;
}

// Anonymous memory of the process, by the kernel's count.
size_t anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    size_t kib;
    if (word == "RssAnon:" && status >> kib) return kib << 10;
  }
  return 0;
}

bool within_bounds(size_t before, size_t limit) {
  const Snapshot s = snapshot_now();
  if (s.memory_used > limit || s.memory_metadata > limit / 100) return false;
  return !kCountedByKernel || anonymous_bytes() <= before + limit + kSlack;
}

void watch_memory(size_t before, size_t limit) {
  while (!stop) {
    if (engine::current() != nullptr && !within_bounds(before, limit)) {
      ++too_much_memory;
    }
    usleep(2000);
  }
}

void take_memory(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (p == MAP_FAILED) abort();
}

// A run in which little was hit or had to go has shown nothing.
bool idle(const Counters& c) { return c.hits < reads / 100 || c.evicted < 100; }

// On a busy machine some time is not enough.
bool enough(Fault fault) {
  if (fault == kIdle || engine::current() == nullptr) return true;
  return !idle(snapshot_now().counters) && (fault != kByte || wrong_bytes) &&
         (fault != kMemory || too_much_memory);
}

void rest(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

void run(Fault fault, size_t cache, double seconds, uint64_t seed) {
  const size_t before = anonymous_bytes();
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kReaders; ++i) {
    threads.emplace_back([=] { Reader(seed + i).go_on(); });
  }
  threads.emplace_back(watch_memory, before, cache);
  rest(seconds / 2);
  if (fault == kMemory) take_memory(cache + kSlack);
  rest(seconds / 2);
  for (double more = 0; more < kPatience && !enough(fault); more += 0.02) {
    rest(0.02);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

// Which of its own checks the run failed, a bit each.
unsigned found() {
  const Snapshot s = snapshot_now();
  const Counters& c = s.counters;
  std::printf(
      "%lu reads, %lu hits, %lu misses, %lu evicted, %lu MiB from devices, "
      "%lu wrong, %lu times too much memory\n",
      reads.load(), uint64_t{c.hits}, uint64_t{c.misses}, uint64_t{c.evicted},
      uint64_t{c.device_bytes} / kMiB, wrong_bytes.load(),
      too_much_memory.load());
  return (wrong_bytes != 0) << kByte | (too_much_memory != 0) << kMemory |
         unsigned{idle(c)} << kIdle;
}

bool configure(const char* policy, size_t cache) {
  Config config;
  config.size_bytes = cache;
  config.stats = StatsTarget::kOff;
  for (const auto& word : options::kEvictWords) {
    if (strcmp(word.text, policy) != 0) continue;
    config.evict = word.value;
    engine::configure(config);
    return epoch::init();
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const char* name = argc > 3 ? argv[3] : "none";
  unsigned fault = kNone;
  while (fault < kIdle && strcmp(kFaults[fault], name) != 0) ++fault;
  const uint64_t seed =
      argc > 4 ? std::strtoull(argv[4], nullptr, 0) : std::random_device()();
  const size_t cache = fault == kIdle ? kIdleCache : (8 + seed % 9) * kMiB;
  std::printf("%s, %zu MiB, seed %lu\n", argv[1], cache / kMiB, seed);
  if (!configure(argv[1], cache)) return 2;
  for (unsigned i = 0; i < kFiles; ++i) make_file(i, i == 0 && fault == kByte);
  run(static_cast<Fault>(fault), cache, std::strtod(argv[2], nullptr), seed);
  for (unsigned i = 0; i < kFiles; ++i) unlink(name_of(i).c_str());
  if (engine::current() == nullptr) {
    std::puts("skipped: nothing can be cached here");
    return 77;
  }
  return found() == (fault == kNone ? 0 : 1u << fault) ? 0 : 1;
}
