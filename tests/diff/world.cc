// SPDX-License-Identifier: MIT
// Generator, choices and log of the differential tester (see world.h). The
// choices lean towards where caches go wrong: page ends, folio ends, the end
// of the file, and numbers that are no descriptors at all.
#include "world.h"

#include <algorithm>
#include <cstdarg>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace diff {

uint64_t World::random() {
  uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

int World::any_fd() {
  if (fds.empty() || chance(1)) {
    static const int kBad[] = {-1, 9999, 3, 8, 1 << 20};
    return pick(kBad);
  }
  return fds[below(fds.size())];
}

int World::file_fd() { return fds.empty() ? -1 : fds[below(fds.size())]; }

off_t World::size_of(int fd) {
  struct stat s;
  if (syscall(SYS_fstat, fd, &s) != 0 || !S_ISREG(s.st_mode)) return 0;
  return s.st_size;
}

off_t World::any_offset(off_t size) {
  switch (below(10)) {
    case 0:
      return 0;
    case 1:
      return std::max<off_t>(0, size - off_t(below(9000)));
    case 2:
      return size + off_t(below(3)) - 1;
    case 3:
      return (off_t(below(size / 4096 + 2)) << 12) + off_t(below(3)) - 1;
    case 4:
      return chance(20) ? off_t(1) << 40 : size;
    case 5:
      return chance(20) ? -1 - off_t(below(5000)) : 4096;
    default:
      return size > 0 ? off_t(below(size)) : 0;
  }
}

size_t World::any_length() {
  static const size_t kSmall[] = {0,    1,    7,    100,   511,   512,
                                  4095, 4096, 4097, 12288, 65536, 65537};
  if (chance(85)) return pick(kSmall);
  static const size_t kLarge[] = {131072,  262145,        1 << 20,
                                  2 << 20, (2 << 20) + 1, 3 << 20};
  return pick(kLarge);
}

bool World::private_file(int fd) {
  struct stat here = {}, s = {};
  return stat(".", &here) == 0 && syscall(SYS_fstat, fd, &s) == 0 &&
         s.st_dev == here.st_dev;
}

bool World::under_stream(int fd) const {
  return std::any_of(streams.begin(), streams.end(),
                     [fd](FILE* f) { return fileno(f) == fd; });
}

void World::forget(int fd) {
  fds.erase(std::remove(fds.begin(), fds.end(), fd), fds.end());
}

// Opened anew by its name in /proc, a pipe has lost O_NONBLOCK.
void World::add(int fd) {
  struct stat s;
  if (syscall(SYS_fstat, fd, &s) == 0 && S_ISFIFO(s.st_mode)) {
    syscall(SYS_fcntl, fd, F_SETFL,
            syscall(SYS_fcntl, fd, F_GETFL) | O_NONBLOCK);
  }
  if (fd > kParkedLast && std::find(fds.begin(), fds.end(), fd) == fds.end())
    fds.push_back(fd);
}

void say(const World& w, const char* format, ...) {
  char line[1024];
  int n = snprintf(line, sizeof line, "%03d ", w.call);
  va_list list;
  va_start(list, format);
  n += vsnprintf(line + n, sizeof line - n - 1, format, list);
  va_end(list);
  n = std::min<int>(n, sizeof line - 2);
  line[n++] = '\n';
  // Raw, and at once: the log is complete however the program ends.
  if (syscall(SYS_write, 1, line, n) != n) _exit(99);
}

std::string result(long value, int error) {
  char text[96];
  if (value == -1) {
    const char* name = strerrorname_np(error);
    snprintf(text, sizeof text, "= -1 %s", name ? name : "?");
  } else {
    snprintf(text, sizeof text, "= %ld%s", value,
             error == kErrnoMark ? "" : " (errno changed)");
  }
  return text;
}

std::string bytes_result(const World& w, long value, int error, size_t asked) {
  std::string text = result(value, error);
  if (value > 0) {
    char more[40];
    snprintf(more, sizeof more, " #%016lx", hash(w.buffer, value));
    text += more;
  }
  for (size_t i = 0; i < kCanaryBytes && asked + i < kBufferBytes; ++i) {
    if (w.buffer[asked + i] != '\x5a') return text + " (wrote past the end)";
  }
  return text;
}

void fill(void* data, size_t bytes, uint64_t seed) {
  char* at = static_cast<char*>(data);
  uint64_t x = seed * 0x9e3779b97f4a7c15 + 1;
  for (size_t i = 0; i < bytes; ++i) {
    if (i % 8 == 0) x = x * 6364136223846793005 + 1442695040888963407;
    at[i] = static_cast<char>(x >> (i % 8 * 8));
  }
}

}  // namespace diff
