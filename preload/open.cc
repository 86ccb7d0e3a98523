// SPDX-License-Identifier: MIT
// open(2) and its relatives: the real call, then the table hears of it.
//
// An open for writing is stopped by our own lease on the file like anybody's
// and let go in a moment. With O_NONBLOCK it would fail instead, which it would
// not do without us: so we wait until the lease is gone, and ask once more.
#include <cerrno>
#include <cstdarg>
#include <fcntl.h>
#include <linux/openat2.h>

#include "core/cache.h"
#include "core/sys.h"
#include "preload/real.h"
#include "preload/fd_table.h"

namespace racache::preload {
namespace {

constexpr bool takes_mode(int flags) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
}

// Makes the call, and makes it again for at most some 50 ms while it fails for
// a lease that is about to go: ours, or another process's under racache, which
// only needs a moment. errno is the program's if it succeeds in the end.
template <class Call>
int persist(int flags, const Call& call) {
  const int before = errno;
  int fd = call();
  const bool breaks =
      (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0;
  if (RACACHE_LIKELY(fd >= 0 || !breaks || (flags & O_NONBLOCK) == 0)) {
    return fd;
  }
  for (int tries = 0; fd < 0 && errno == EWOULDBLOCK && tries < 50; ++tries) {
    if (tries != 0 || !engine::settle_breaks()) {
      const timespec nap{0, 1'000'000};
      sys::invoke(SYS_nanosleep, &nap, 0L);
    }
    fd = call();
  }
  if (fd >= 0) errno = before;
  return fd;
}

int opened(int fd, int flags) {
  if (RACACHE_LIKELY(fd >= 0)) fd_opened(fd, flags);
  return fd;
}

int open_path(const char* path, int flags, mode_t mode) {
  return opened(
      persist(flags, [&] { return real::open(path, flags, mode); }), flags);
}

int open_at(int dir, const char* path, int flags, mode_t mode) {
  return opened(
      persist(flags, [&] { return real::openat(dir, path, flags, mode); }),
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
  int fd = real::openat2(dir, path, how, size);
  if (fd < 0 && errno != EWOULDBLOCK) return fd;
  const int flags = static_cast<int>(how->flags);
  if (fd < 0) {
    fd = persist(flags, [&] { return real::openat2(dir, path, how, size); });
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
