// SPDX-License-Identifier: MIT
// open(2) and its relatives: the real call, then the table hears of it.
#include <fcntl.h>
#include <linux/openat2.h>
#include <cerrno>
#include <cstdarg>

#include "preload/fd_table.h"
#include "preload/open.h"
#include "preload/real.h"

namespace racache::preload {
namespace {

constexpr bool takes_mode(int flags) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
}

int opened(int fd, int flags) {
  if (RACACHE_LIKELY(fd >= 0)) fd_opened(fd, flags);
  return fd;
}

int open_path(const char* path, int flags, mode_t mode) {
  return opened(
      persist(errno, flags, [&] { return real::open(path, flags, mode); }),
      flags);
}

int open_at(int dir, const char* path, int flags, mode_t mode) {
  return opened(persist(errno, flags,
                        [&] { return real::openat(dir, path, flags, mode); }),
                flags);
}

}  // namespace

namespace hook {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = takes_mode(flags) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open_path(path, flags, mode);
}

int openat(int dir, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = takes_mode(flags) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open_at(dir, path, flags, mode);
}

int creat(const char* path, mode_t mode) {
  return opened(real::creat(path, mode), O_WRONLY);
}

// The kernel has read `how` when it succeeded or met a lease, so we may.
int openat2(int dir, const char* path, const open_how* how, size_t size) {
  const int before = errno;
  int fd = real::openat2(dir, path, how, size);
  if (fd < 0 && errno != EWOULDBLOCK) return fd;
  const int flags = static_cast<int>(how->flags);
  if (fd < 0) {
    fd = persist(before, flags,
                 [&] { return real::openat2(dir, path, how, size); });
  }
  return opened(fd, flags);
}

// Fortify's: open without a mode. libc ends the program if one is needed.
int __open_2(const char* path, int flags) {
  if (takes_mode(flags)) return real::__open_2(path, flags);
  return open_path(path, flags, 0);
}

int __openat_2(int dir, const char* path, int flags) {
  if (takes_mode(flags)) return real::__openat_2(dir, path, flags);
  return open_at(dir, path, flags, 0);
}

}  // namespace hook

RACACHE_DEFINE_TWIN(open64, open)
RACACHE_DEFINE_TWIN(__open, open)
RACACHE_DEFINE_TWIN(__open64, open)
RACACHE_DEFINE_TWIN(openat64, openat)
RACACHE_DEFINE_TWIN(creat64, creat)
RACACHE_DEFINE_TWIN(__open64_2, __open_2)
RACACHE_DEFINE_TWIN(__openat64_2, __openat_2)

}  // namespace racache::preload
