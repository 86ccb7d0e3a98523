// SPDX-License-Identifier: MIT
// Calls that make, move and end descriptor numbers.
#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/ioctl.h>
#include <cerrno>
#include <cstdarg>

#include "core/cache.h"
#include "preload/descriptors.h"
#include "preload/fd_table.h"
#include "preload/open_file.h"
#include "preload/own_lease.h"
#include "preload/process.h"
#include "preload/real.h"
#include "preload/stream.h"

namespace racache::preload {
namespace {

// ---- close_range ----

// Whether this kernel has it, and lets us: then a valid call does not fail, and
// the table may forget before. An empty range far above all numbers.
bool ranges_close() {
  return !sys::failed(sys::invoke(SYS_close_range, ~0u, ~0u, 0));
}

bool valid(unsigned first, unsigned last, int flags) {
  constexpr int kKnown = CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC;
  return first <= last && (flags & ~kKnown) == 0 && ranges_close();
}

int close_around(unsigned ring, unsigned first, unsigned last, int flags) {
  if (first < ring) {
    const int result = real::close_range(first, ring - 1, flags);
    if (result != 0) return result;
  }
  if (ring < last) return real::close_range(ring + 1, last, flags);
  return real::close_range(~0u, ~0u, flags);
}

int close_numbers(unsigned first, unsigned last, int flags) {
  const int ring = engine::ring_fd();
  const unsigned number = static_cast<unsigned>(ring);
  if (ring < 0 || number < first || number > last)
    return real::close_range(first, last, flags);
  return close_around(number, first, last, flags);
}

// Without close_range(2): libc's closefrom finds out what is open, so it can be
// asked for what is above the ring; below, one by one.
void close_from_around(int ring, int first) {
  if (close_numbers(first, ~0u, 0) == 0) return;
  for (int fd = first; fd < ring; ++fd) sys::invoke(SYS_close, fd);
  real::closefrom(ring + 1);
}

}  // namespace

namespace hook {

int close(int fd) {
  if (is_ring(fd)) return closed_number();
  fd_closing(fd);
  before_close(fd);
  return real::close(fd);
}

int close_range(unsigned first, unsigned last, int flags) {
  if (!valid(first, last, flags)) return real::close_range(first, last, flags);
  flags =
      static_cast<int>(before_unsharing_range(static_cast<unsigned>(flags)));
  if ((flags & CLOSE_RANGE_CLOEXEC) == 0) fd_range_closing(first, last);
  return close_numbers(first, last, flags);
}

void closefrom(int first) {
  const int from = first < 0 ? 0 : first;
  const int ring = engine::ring_fd();
  fd_range_closing(static_cast<unsigned>(from), ~0u);
  if (ring < from) return real::closefrom(from);
  close_from_around(ring, from);
}

int dup(int fd) {
  if (is_ring(fd)) return closed_number();
  const int to = real::dup(fd);
  after_duplicating(fd, to);
  return to;
}

int dup2(int from, int to) {
  if (is_ring(from)) return closed_number();
  if (from == to) return real::dup2(from, to);
  before_replacing(from, to);
  const int result = real::dup2(from, to);
  after_duplicating(from, result);
  return result;
}

int dup3(int from, int to, int flags) {
  if (is_ring(from)) return closed_number();
  if (from == to) return real::dup3(from, to, flags);
  before_replacing(from, to);
  const int result = real::dup3(from, to, flags);
  after_duplicating(from, result);
  return result;
}

// One argument of any type, as libc's own wrapper takes it.
int fcntl(int fd, int command, ...) {
  va_list rest;
  va_start(rest, command);
  const long argument = va_arg(rest, long);
  va_end(rest);
  if (is_ring(fd)) return closed_number();
  if (command == F_SETLEASE) {
    return own_lease::set(
        fd, argument, [&] { return real::fcntl(fd, F_SETLEASE, argument); });
  }
  before_fcntl(fd, command, argument);
  const int result = real::fcntl(fd, command, argument);
  if (duplicates(command)) after_duplicating(fd, result);
  return result;
}

// FIONREAD tells what is left behind the position.
int ioctl(int fd, unsigned long request, ...) {
  va_list rest;
  va_start(rest, request);
  void* argument = va_arg(rest, void*);
  va_end(rest);
  if (is_ring(fd)) return closed_number();
  if (request == FIONREAD) share_position(fd);
  return real::ioctl(fd, request, argument);
}

// Locks from the position on.
int lockf(int fd, int command, off_t length) {
  share_position(fd);
  return real::lockf(fd, command, length);
}

}  // namespace hook

RACACHE_DEFINE_TWIN(__close, close)
RACACHE_DEFINE_TWIN(__dup2, dup2)
RACACHE_DEFINE_TWIN(fcntl64, fcntl)
RACACHE_DEFINE_TWIN(__fcntl, fcntl)
RACACHE_DEFINE_TWIN(lockf64, lockf)

}  // namespace racache::preload
