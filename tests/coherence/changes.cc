// SPDX-License-Identifier: MIT
// Every way another process can change a file. `at` tells where, so that the
// check looks there first.
#include "writer.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace coherence {

bool by_pwrite(Writer& w, const char* file, off_t size, off_t* at) {
  int fd = open_timed(w, file, w.below(2) ? O_WRONLY : O_RDWR);
  *at = w.below(size + 1);
  size_t n = 1 + w.below(20000);
  random_bytes(w, w.data.data(), n);
  ssize_t got = pwrite(fd, w.data.data(), n, *at);
  close(fd);
  return got == ssize_t(n);
}

bool by_rename(Writer& w, const char* file, off_t, off_t* at) {
  int fd = open_timed(w, "new", O_WRONLY | O_CREAT | O_TRUNC);
  size_t n = 65536 + w.below(200000);
  random_bytes(w, w.data.data(), n);
  bool good = write(fd, w.data.data(), n) == ssize_t(n);
  close(fd);
  *at = 0;
  return rename("new", file) == 0 && good;
}

namespace {

bool by_append(Writer& w, const char* file, off_t size, off_t* at) {
  int fd = open_timed(w, file, O_WRONLY | O_APPEND);
  *at = size;
  size_t n = 1 + w.below(9000);
  random_bytes(w, w.data.data(), n);
  ssize_t got = write(fd, w.data.data(), n);
  close(fd);
  return got == ssize_t(n);
}

bool by_truncate(Writer& w, const char* file, off_t size, off_t* at) {
  off_t to = w.below(2) ? w.below(size + 1) : size + w.below(100000);
  *at = std::min(to, size);
  auto start = std::chrono::steady_clock::now();
  int got = truncate(file, to);
  std::chrono::duration<double, std::micro> took =
      std::chrono::steady_clock::now() - start;
  w.held_up.push_back(took.count());
  return got == 0;
}

bool by_direct(Writer& w, const char* file, off_t size, off_t* at) {
  int fd = open_timed(w, file, O_WRONLY | O_DIRECT);
  *at = w.below(size / kBlock + 1) * kBlock;
  size_t n = (1 + w.below(16)) * kBlock;
  random_bytes(w, w.aligned, n);
  ssize_t got = pwrite(fd, w.aligned, n, *at);
  close(fd);
  return got == ssize_t(n);
}

bool by_store(Writer& w, const char* file, off_t size, off_t* at) {
  if (size == 0) return by_append(w, file, size, at);
  int fd = open_timed(w, file, O_RDWR);
  void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (p == MAP_FAILED) return false;
  *at = w.below(size);
  size_t n = std::min<size_t>(size - *at, 1 + w.below(9000));
  random_bytes(w, w.data.data(), n);
  memcpy(static_cast<char*>(p) + *at, w.data.data(), n);
  munmap(p, size);
  return true;
}

bool fallocated(Writer& w, const char* file, int mode, off_t at, off_t n) {
  int fd = open_timed(w, file, O_RDWR);
  int got = fallocate(fd, mode, at, n);
  close(fd);
  return got == 0;
}

bool by_punch(Writer& w, const char* file, off_t size, off_t* at) {
  *at = w.below(size + 1);
  return fallocated(w, file, 3, *at, 1 + w.below(30000));
}
bool by_zero_range(Writer& w, const char* file, off_t size, off_t* at) {
  *at = w.below(size + 1);
  return fallocated(w, file, 0x10, *at, 1 + w.below(30000));
}
bool by_collapse(Writer& w, const char* file, off_t size, off_t* at) {
  *at = w.below(size / kBlock / 2 + 1) * kBlock;
  return fallocated(w, file, 8, *at, kBlock);
}
bool by_insert(Writer& w, const char* file, off_t size, off_t* at) {
  *at = w.below(size / kBlock / 2 + 1) * kBlock;
  return fallocated(w, file, 0x20, *at, kBlock);
}

bool by_copy(Writer& w, const char* file, off_t size, off_t* at) {
  int from = open("source", O_RDONLY);
  int fd = open_timed(w, file, O_WRONLY);
  *at = w.below(size + 1);
  off_t source_at = w.below(100000), to = *at;
  ssize_t got = copy_file_range(from, &source_at, fd, &to, 20000, 0);
  close(fd);
  close(from);
  return got > 0;
}

constexpr Change kChanges[] = {
    {"pwrite", by_pwrite},         {"append", by_append},
    {"truncate", by_truncate},     {"O_DIRECT write", by_direct},
    {"mapped store", by_store},    {"punch hole", by_punch},
    {"zero range", by_zero_range}, {"collapse range", by_collapse},
    {"insert range", by_insert},   {"copy_file_range", by_copy},
    {"rename over", by_rename},
};

}  // namespace

Changes all_changes() { return {kChanges, std::size(kChanges)}; }

}  // namespace coherence
