// SPDX-License-Identifier: MIT
// The calls of open.cc, read.cc and seek.cc without the exported names, which
// would take over the test's own libc calls.
#pragma once

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "preload/fd_table.h"
#include "preload/hit.h"
#include "preload/serve.h"

namespace tracked_test {

using namespace racache::preload;

// Raw, because descriptors race here on purpose and ThreadSanitizer watches
// libc's calls for just that.
inline ssize_t pread_raw(int fd, void* buffer, size_t count, off_t offset) {
  return ::syscall(SYS_pread64, fd, buffer, count, offset);
}

inline int open_tracked(const std::string& path, int flags = O_RDONLY) {
  const int fd = static_cast<int>(
      ::syscall(SYS_openat, AT_FDCWD, path.c_str(), flags | O_CLOEXEC, 0));
  fd_opened(fd, flags);
  return fd;
}
inline void close_tracked(int fd) {
  fd_closing(fd);
  ::syscall(SYS_close, fd);
}
inline int dup_tracked(int fd) {
  const int copy = static_cast<int>(::syscall(SYS_dup, fd));
  fd_duplicated(fd, copy);
  return copy;
}

inline long as_libc(long answer) {
  if (answer >= 0) return answer;
  errno = static_cast<int>(-answer);
  return -1;
}
inline ssize_t do_read(int fd, void* buffer, size_t count) {
  const size_t hit = tracked(fd) ? hit_next(fd, buffer, count) : 0;
  if (hit != 0) return static_cast<ssize_t>(hit);
  if (!may_serve(fd)) return ::read(fd, buffer, count);
  serve::KernelUse use;
  iovec storage;
  const long got =
      serve::read_next(fd, serve::one_buffer(buffer, count, storage), use);
  return got != serve::kPass ? as_libc(got) : ::read(fd, buffer, count);
}
inline ssize_t do_readv(int fd, const iovec* iov, int count) {
  if (!may_serve(fd)) return ::readv(fd, iov, count);
  serve::KernelUse use;
  const long got = serve::read_next(fd, serve::many_buffers(iov, count), use);
  return got != serve::kPass ? as_libc(got) : ::readv(fd, iov, count);
}
inline ssize_t do_pread(int fd, void* buffer, size_t count, off_t offset) {
  const size_t hit = tracked(fd) ? hit_at(fd, buffer, count, offset) : 0;
  if (hit != 0) return static_cast<ssize_t>(hit);
  if (!may_serve(fd)) return pread_raw(fd, buffer, count, offset);
  iovec storage;
  const long got =
      serve::read_at(fd, serve::one_buffer(buffer, count, storage), offset);
  return got != serve::kPass ? as_libc(got)
                             : pread_raw(fd, buffer, count, offset);
}
inline off_t do_lseek(int fd, off_t offset, int whence) {
  if (!may_serve(fd)) return ::lseek(fd, offset, whence);
  serve::KernelUse use;
  const long at = serve::seek(fd, offset, whence, use);
  return at != serve::kPass ? as_libc(at) : ::lseek(fd, offset, whence);
}

}  // namespace tracked_test
