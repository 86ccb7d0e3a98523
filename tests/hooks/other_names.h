/* SPDX-License-Identifier: MIT */
/* libc's names that its headers do not declare, or only when they check
 * (_FORTIFY_SOURCE). */
#pragma once

#include "victim.h"

#include <dlfcn.h>
#include <linux/openat2.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>

int __open(const char* path, int flags, ...);
int __open64(const char* path, int flags, ...);
int __open_2(const char* path, int flags);
int __open64_2(const char* path, int flags);
int __openat_2(int dir, const char* path, int flags);
int __openat64_2(int dir, const char* path, int flags);
ssize_t __read(int fd, void* buffer, size_t count);
ssize_t __pread64(int fd, void* buffer, size_t count, off64_t offset);
ssize_t __read_chk(int fd, void* buffer, size_t count, size_t room);
ssize_t __pread_chk(int fd, void* buffer, size_t count, off_t offset,
                    size_t room);
ssize_t __pread64_chk(int fd, void* buffer, size_t count, off64_t offset,
                      size_t room);
ssize_t __recv_chk(int fd, void* buffer, size_t count, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void* buffer, size_t count, size_t room,
                       int flags, struct sockaddr* address, socklen_t* size);
ssize_t __write(int fd, const void* buffer, size_t count);
off_t __lseek(int fd, off_t offset, int whence);
int __close(int fd);
int __dup2(int from, int to);
int __fcntl(int fd, int command, ...);
typedef void (*handler_t)(int);
handler_t bsd_signal(int number, handler_t handler);
handler_t ssignal(int number, handler_t handler);
int __sigaction(int number, const struct sigaction* action,
                struct sigaction* old);
int capset(void* header, const void* data);

/* A libc may lack it. Ours has it always, so that it is called with the
 * library, and its system call without. Looked up by the first call. */
static inline int by_openat2(const char* path) {
  typedef int Function(int, const char*, const struct open_how*, size_t);
  static Function* function;
  static int looked;
  struct open_how how = {0};
  how.flags = O_RDONLY;
  if (!looked) function = (Function*)dlsym(RTLD_DEFAULT, "openat2");
  looked = 1;
  if (function) return function(AT_FDCWD, path, &how, sizeof how);
  return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
}
