/* SPDX-License-Identifier: MIT */
/* A library behind ours whose own hooks are made of syscall(2), as allocators
 * and tracers do it: our syscall() must not lead back to its hooks. */
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

ssize_t read(int fd, void* buffer, size_t count) {
  return syscall(SYS_read, fd, buffer, count);
}
ssize_t pread(int fd, void* buffer, size_t count, off_t offset) {
  return syscall(SYS_pread64, fd, buffer, count, offset);
}
off_t lseek(int fd, off_t offset, int whence) {
  return syscall(SYS_lseek, fd, offset, whence);
}
int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  int mode = (flags & O_CREAT) ? va_arg(rest, int) : 0;
  va_end(rest);
  return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
int close(int fd) { return (int)syscall(SYS_close, fd); }
int dup(int fd) { return (int)syscall(SYS_dup, fd); }
int dup2(int from, int to) {
  if (from == to) return to;
  return (int)syscall(SYS_dup3, from, to, 0);
}
