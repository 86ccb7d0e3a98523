// SPDX-License-Identifier: MIT
// The leases that the program takes itself.
//
// A read lease stands beside ours. A write lease is granted on a file that
// nobody else has open, so our descriptor goes first, and the file is not
// cached any more: to open it again would break the program's lease.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <cerrno>

#include "core/cache.h"
#include "preload/fd_table.h"

namespace racache::preload::own_lease {

// Whether we had the file open until now. The number need not be tracked.
inline bool leave_file(int fd) {
  struct stat s;
  if (engine::generation() == 0 || !in_own_process()) return false;
  if (sys::failed(sys::status_of(fd, &s))) return false;
  return engine::shun(s.st_dev, s.st_ino);
}

// fcntl(fd, F_SETLEASE, kind), which `call` makes. The kernel may take a moment
// to let go of what we have closed.
template <class Call>
int set(int fd, long kind, Call call) {
  constexpr int kTries = 50;
  const timespec nap = sys::to_timespec(1'000'000);
  const int before = errno;
  give_to_kernel(fd);
  const bool was_ours = kind == F_WRLCK && leave_file(fd);
  int result = call();
  for (int i = 0; was_ours && i < kTries && result < 0; ++i) {
    if (errno != EAGAIN) break;
    sys::invoke(SYS_nanosleep, &nap, 0L);
    errno = before;
    result = call();
  }
  return result;
}

}  // namespace racache::preload::own_lease
