// SPDX-License-Identifier: MIT
// Mappings: what they show must be the file, whether or not a hint has put
// other memory over them, and stores through them must reach every reader.
#include "world.h"

#include <algorithm>

#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace diff {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kMostMaps = 4;

// What of a mapping may be touched: its file may have shrunk meanwhile.
size_t safe_bytes(World& w, const Mapping& m) {
  off_t left = std::max<off_t>(0, w.size_of(m.keep) - m.offset);
  return std::min<size_t>(m.bytes, left);
}

int open_again(const Mapping& m) {
  char path[40];
  snprintf(path, sizeof path, "/proc/self/fd/%d", m.keep);
  return open(path, O_RDONLY);
}

// Only a name for the file: no lock and no lease minds it.
int keep_file(const std::string& file) {
  int name = open(file.c_str(), O_PATH);
  int keep = fcntl(name, F_DUPFD, kFirstKept);
  close(name);
  return keep;
}

void drop_one(World& w) {
  if (w.maps.empty()) return;
  size_t i = w.below(w.maps.size());
  int error;
  long got = DIFF_CALL(error, munmap(w.maps[i].address, w.maps[i].bytes));
  close(w.maps[i].keep);
  w.maps.erase(w.maps.begin() + i);
  say(w, "munmap(map %zu) %s", i, result(got, error).c_str());
}

void run_map(World& w) {
  if (w.maps.size() >= kMostMaps) return drop_one(w);
  int which = static_cast<int>(w.below(w.files.size())), error;
  bool store = w.stores_allowed && w.chance(w.writers_percent);
  int fd = open(w.files[which].c_str(), store ? O_RDWR : O_RDONLY);
  off_t size = w.size_of(fd);
  off_t at = w.chance(60) ? 0 : (w.any_offset(size) & ~off_t(kPage - 1));
  at = std::max<off_t>(0, std::min(at, size & ~off_t(kPage - 1)));
  size_t n = std::max<size_t>(
      1, std::min<size_t>(size - at, w.pick({size_t(kPage), size_t(100000),
                                             size_t(8 << 20)})));
  int protection = store ? PROT_READ | PROT_WRITE : PROT_READ;
  int flags = store || w.chance(50) ? MAP_SHARED : MAP_PRIVATE;
  bool wide = w.chance(50);
  void* p =
      DIFF_CALL(error, wide ? mmap64(nullptr, n, protection, flags, fd, at)
                            : mmap(nullptr, n, protection, flags, fd, at));
  bool bad = p == MAP_FAILED;
  close(fd);
  say(w, "mmap(%s, %zu, %d, %d, %ld) %s", w.files[which].c_str(), n, protection,
      flags, at, bad ? strerrorname_np(error) : "mapped");
  if (bad) return;
  w.maps.push_back(
      {static_cast<char*>(p), n, keep_file(w.files[which]), at, store});
}

void run_look(World& w) {
  if (w.maps.empty()) return run_map(w);
  size_t i = w.below(w.maps.size());
  const Mapping& m = w.maps[i];
  size_t n = safe_bytes(w, m);
  size_t from = n > 0 ? w.below(n) : 0;
  size_t some = w.chance(30) ? n - from : std::min<size_t>(n - from, 9000);
  say(w, "map %zu at %zu: %zu bytes #%016lx", i, from, some,
      hash(m.address + from, some));
}

void run_madvise(World& w) {
  if (w.maps.empty()) return run_map(w);
  size_t i = w.below(w.maps.size());
  const Mapping& m = w.maps[i];
  int advice = w.pick({MADV_WILLNEED, MADV_WILLNEED, MADV_WILLNEED, MADV_RANDOM,
                       MADV_SEQUENTIAL, MADV_NORMAL, MADV_DONTNEED, 12345});
  size_t n = w.chance(60) ? m.bytes : std::min(m.bytes, w.any_length());
  int error;
  long got = DIFF_CALL(error, madvise(m.address, n, advice));
  say(w, "madvise(map %zu, %zu, %d) %s", i, n, advice,
      result(got, error).c_str());
  size_t safe = std::min<size_t>(safe_bytes(w, m), 3 << 20);
  say(w, "map %zu afterwards: #%016lx", i, hash(m.address, safe));
}

// A store, then a read of the same place by the kernel's other door.
void run_store(World& w) {
  for (size_t i = 0; i < w.maps.size(); ++i) {
    const Mapping& m = w.maps[i];
    size_t n = safe_bytes(w, m);
    if (!m.shared_writable || n == 0) continue;
    size_t from = w.below(n), some = std::min<size_t>(n - from, 6000);
    fill(m.address + from, some, w.random());
    int fd = open_again(m);
    ssize_t got = pread(fd, w.buffer, some, m.offset + from);
    close(fd);
    say(w, "store through map %zu at %zu: read back %zd #%016lx", i, from, got,
        hash(w.buffer, got > 0 ? got : 0));
    return;
  }
  run_map(w);
}

void run_unmap(World& w) { drop_one(w); }

constexpr Kind kKinds[] = {
    {"mmap", Class::kRead, 2, run_map},
    {"look", Class::kRead, 4, run_look},
    {"madvise", Class::kHint, 3, run_madvise},
    {"store", Class::kChange, 3, run_store},
    {"munmap", Class::kRead, 1, run_unmap},
};

}  // namespace

Kinds map_kinds() { return {kKinds, std::size(kKinds)}; }

}  // namespace diff
