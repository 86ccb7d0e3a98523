// SPDX-License-Identifier: MIT
// Plain hits against everything that takes their ground away: eviction, hints
// to drop, writers and truncation (each of which breaks the lease), numbers
// closed, duplicated and used again for other files, forks. Every word of a
// file says which file, which version and which place it is of, so each word
// that a reader gets can be judged: of one file, at its place, and no older
// than what was complete when the call began. Zeros are allowed where the file
// was being shortened meanwhile: truncation clears the rest of a large folio in
// the kernel's page cache under those who are copying it.
//
//   hit_stress SECONDS [SEED]
//
// The real engine beneath the interposer's parts; files in the current
// directory.
#include <sys/mman.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/engine.h"
#include "core/hit.h"
#include "preload/adoption.h"
#include "unit/ready_preload.h"
#include "unit/tracked_calls.h"

using namespace racache;
using namespace tracked_test;

namespace {

constexpr unsigned kFiles = 6, kNumbers = 8, kReaders = 3;
constexpr uint64_t kWords = 3 << 17;  // of a file: 3 MiB
constexpr uint64_t kCache = 8 << 20;  // less than half of all files

uint64_t word_of(uint64_t file, uint64_t version, uint64_t place) {
  return file << 56 | version << 32 | place;
}
uint64_t file_of(uint64_t word) { return word >> 56; }
uint64_t version_of(uint64_t word) { return word >> 32 & 0xffffff; }
uint64_t place_of(uint64_t word) { return word & 0xffffffff; }

// In memory that the children share, since they judge by it as well.
struct Shared {
  std::atomic<uint64_t> started[kFiles];  // before anything of it is written
  std::atomic<uint64_t> done[kFiles];     // after all of it is
  std::atomic<uint64_t> cuts_started[kFiles], cuts_done[kFiles];
  std::atomic<int> numbers[kNumbers];
  std::atomic<bool> stop;
  std::atomic<unsigned long> reads, wrong, changes, children;
};
Shared& shared =
    *static_cast<Shared*>(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0));

using Engine = std::mt19937_64;

std::string name_of(unsigned file) {
  return "hit_stress." + std::to_string(getpid()) + "." + std::to_string(file);
}

// The writer's calls are raw: the interposer would let go of the lease first.
void write_version(const std::string& name, unsigned file, bool shorten) {
  const uint64_t version = ++shared.started[file];
  std::vector<uint64_t> words(kWords);
  for (uint64_t i = 0; i < kWords; ++i) words[i] = word_of(file, version, i);
  const int fd = static_cast<int>(
      syscall(SYS_openat, AT_FDCWD, name.c_str(), O_WRONLY | O_CREAT, 0600));
  if (fd < 0) abort();
  if (shorten) {
    ++shared.cuts_started[file];
    if (syscall(SYS_ftruncate, fd, 12345) != 0) abort();
    ++shared.cuts_done[file];
  }
  const size_t bytes = kWords * sizeof(uint64_t);
  for (size_t at = 0; at < bytes;) {
    const char* from = reinterpret_cast<const char*>(words.data());
    const long n = syscall(SYS_pwrite64, fd, from + at, bytes - at, at);
    if (n <= 0) abort();
    at += static_cast<size_t>(n);
  }
  syscall(SYS_close, fd);
  shared.done[file] = version;
}

// What was complete when a read began.
struct Before {
  uint64_t done[kFiles], cuts_done[kFiles];
};

Before before_read() {
  Before before;
  for (unsigned i = 0; i < kFiles; ++i) {
    before.done[i] = shared.done[i];
    before.cuts_done[i] = shared.cuts_done[i];
  }
  return before;
}

// Nothing but zeros does not say of which file it is.
bool any_cut(const Before& before) {
  for (unsigned i = 0; i < kFiles; ++i) {
    if (shared.cuts_started[i] != before.cuts_done[i]) return true;
  }
  return false;
}

bool right(const uint64_t* words, size_t count, uint64_t place,
           const Before& before) {
  size_t first = 0;
  while (first < count && words[first] == 0) ++first;
  if (first == count) return any_cut(before);
  const uint64_t file = file_of(words[first]);
  if (file >= kFiles) return false;
  const uint64_t done = before.done[file], newest = shared.started[file];
  const bool cut = shared.cuts_started[file] != before.cuts_done[file];
  for (size_t i = 0; i < count; ++i) {
    if (words[i] == 0 && cut) continue;
    const uint64_t version = version_of(words[i]);
    if (file_of(words[i]) != file || place_of(words[i]) != place + i ||
        version < done || version > newest) {
      std::printf("file %lu place %lu: %016lx, complete %lu, newest %lu\n",
                  file, place + i, words[i], done, newest);
      return false;
    }
  }
  return true;
}

// One read, of whatever is open there now.
bool read_one(Engine& random, int fd, std::vector<uint64_t>& buffer) {
  static constexpr size_t kCounts[] = {1, 64, 512, 512, 8192};
  const size_t count = kCounts[random() % 5];
  // Often the same few places, which are plain hits before long.
  const uint64_t span = random() % 4 == 0 ? kWords : 1024;
  const uint64_t place = random() % span;
  const Before before = before_read();
  const ssize_t got =
      do_pread(fd, buffer.data(), count * 8, static_cast<off_t>(place * 8));
  if (got < 8) return true;  // closed, or just truncated
  return right(buffer.data(), static_cast<size_t>(got) / 8, place, before);
}

void read_on(unsigned stream, uint64_t seed) {
  Engine random(seed + stream);
  std::vector<uint64_t> buffer(8192);
  while (!shared.stop) {
    const int fd = shared.numbers[random() % kNumbers];
    if (!read_one(random, fd, buffer)) ++shared.wrong;
    ++shared.reads;
  }
}

// Numbers are taken away and come back as others, and what is cached is
// dropped; the evictor does its own.
void churn(uint64_t seed) {
  Engine random(seed + 100);
  while (!shared.stop) {
    std::atomic<int>& number = shared.numbers[random() % kNumbers];
    const int fd = number;
    if (random() % 8 == 0) serve::dontneed(fd, 0, 1 << 20);
    if (random() % 4 == 0) {
      number = dup_tracked(fd);
    } else {
      const unsigned file = static_cast<unsigned>(random() % kFiles);
      number = open_tracked(name_of(file));
    }
    close_tracked(fd);
    usleep(static_cast<useconds_t>(random() % 2000));
  }
}

void write_on(uint64_t seed) {
  Engine random(seed + 200);
  while (!shared.stop) {
    const unsigned file = static_cast<unsigned>(random() % kFiles);
    write_version(name_of(file), file, random() % 2 == 0);
    ++shared.changes;
    usleep(static_cast<useconds_t>(random() % 30000));
  }
}

// A child begins with the numbers that its parent had, and nothing else.
// ThreadSanitizer ends the child of several threads that starts one of its own,
// as an engine does; there the child is left out.
#if defined(__SANITIZE_THREAD__)
constexpr bool kForks = false;
#else
constexpr bool kForks = true;
#endif
void fork_one(uint64_t seed) {
  Engine random(seed);
  share_positions(Share::kAll);
  const pid_t pid = fork();
  if (pid == 0) {
    fd_forget_threads();
    std::vector<uint64_t> buffer(8192);
    bool good = true;
    for (int i = 0; i < 50; ++i) {
      good = good && read_one(random, shared.numbers[i % kNumbers], buffer);
    }
    _exit(good ? 0 : 1);
  }
  int status = -1;
  if (waitpid(pid, &status, 0) != pid || status != 0) ++shared.wrong;
  ++shared.children;
}

void set_up() {
  if (!epoch::init()) exit(77);
  Config config;
  config.size_bytes = kCache;
  engine::configure(config);
  for (unsigned i = 0; i < kFiles; ++i) write_version(name_of(i), i, false);
  for (unsigned i = 0; i < kNumbers; ++i) {
    shared.numbers[i] = open_tracked(name_of(i % kFiles));
  }
}

// A run in which nothing was hit has shown nothing.
int report(const Counters& sum) {
  std::printf(
      "%lu reads, %lu hits, %lu evicted, %lu changes, %lu children, "
      "%lu wrong\n",
      shared.reads.load(), uint64_t{sum.hits}, uint64_t{sum.evicted},
      shared.changes.load(), shared.children.load(), shared.wrong.load());
  if (shared.wrong != 0) return 1;
  return sum.hits > shared.reads / 100 && sum.evicted != 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const double seconds = std::strtod(argv[1], nullptr);
  const uint64_t seed =
      argc > 2 ? std::strtoull(argv[2], nullptr, 0) : std::random_device()();
  std::printf("seed %lu\n", seed);
  set_up();
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kReaders; ++i)
    threads.emplace_back(read_on, i, seed);
  threads.emplace_back(churn, seed);
  threads.emplace_back(write_on, seed);
  for (double past = 0; past < seconds; past += 0.25) {
    usleep(250000);
    if (kForks) fork_one(seed + static_cast<uint64_t>(past * 4));
  }
  shared.stop = true;
  for (std::thread& thread : threads) thread.join();
  for (unsigned i = 0; i < kFiles; ++i) unlink(name_of(i).c_str());
  if (engine::current() == nullptr) return 77;
  static Snapshot snapshot;
  engine::fill_snapshot(*engine::current(), snapshot);
  return report(snapshot.counters);
}
