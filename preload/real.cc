// SPDX-License-Identifier: MIT
// The table of real functions: first values, resolution, and the bare system
// calls. What other families need besides (a raw::name for each RACACHE_HOOK
// row) stands in their own files.
#include "preload/real.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <cerrno>
#include <cstdarg>

#include "core/sys.h"

namespace racache::preload {

namespace {

// The first value of a function that only libc has: finds itself, then calls.
// A hook of ours calls it at most a few times, before the constructor runs.
template <auto* Slot, const char* Name>
struct Late;
template <class R, class... A, R (**Slot)(A...), const char* Name>
struct Late<Slot, Name> {
  static R call(A... arguments) {
    auto* found = reinterpret_cast<R (*)(A...)>(dlsym(RTLD_NEXT, Name));
    if (found == nullptr) {
      errno = ENOSYS;
      return fail();
    }
    *Slot = found;
    return found(arguments...);
  }
  static R fail() {
    if constexpr (std::is_void_v<R>) {
      return;
    } else if constexpr (std::is_pointer_v<R>) {
      return nullptr;
    } else {
      return static_cast<R>(-1);
    }
  }
};

#define RACACHE_LIBC(name, result, parameters, family) \
  constexpr char name_of_##name[] = #name;
#include "preload/hooks.def"

}  // namespace

namespace real {

#define RACACHE_HOOK(name, result, parameters, family) \
  constinit type::name* name = raw::name;
#define RACACHE_LIBC(name, result, parameters, family) \
  constinit type::name* name = Late<&real::name, name_of_##name>::call;
#include "preload/hooks.def"

namespace {

struct Row {
  const char* name;
  void* slot;
};
constexpr Row kRows[] = {
#define RACACHE_HOOK(name, result, parameters, family) {#name, &real::name},
#define RACACHE_LIBC RACACHE_HOOK
#include "preload/hooks.def"
};

}  // namespace

// An old libc lacks some: then the first value stays. A failed lookup leaves a
// message behind that the program's first dlerror() must not see.
void resolve() {
  for (const Row& row : kRows) {
    void* found = dlsym(RTLD_NEXT, row.name);
    if (found != nullptr) *static_cast<void**>(row.slot) = found;
  }
  dlerror();
}

}  // namespace real

namespace raw {
namespace {

// The mode is there only if open(2) would look at it.
constexpr bool takes_mode(int flags) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
}
int open_at(int dir, const char* path, int flags, mode_t mode) {
  return static_cast<int>(
      with_errno(sys::invoke(SYS_openat, dir, path, flags, mode)));
}

}  // namespace

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = takes_mode(flags) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open_at(AT_FDCWD, path, flags, mode);
}

int openat(int dir, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = takes_mode(flags) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open_at(dir, path, flags, mode);
}

int creat(const char* path, mode_t mode) {
  return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int openat2(int dir, const char* path, const open_how* how, size_t size) {
  return static_cast<int>(
      with_errno(sys::invoke(SYS_openat2, dir, path, how, size)));
}

ssize_t read(int fd, void* buffer, size_t count) {
  return with_errno(sys::invoke(SYS_read, fd, buffer, count));
}

ssize_t pread(int fd, void* buffer, size_t count, off_t offset) {
  return with_errno(sys::invoke(SYS_pread64, fd, buffer, count, offset));
}

ssize_t readv(int fd, const iovec* iov, int count) {
  return with_errno(sys::invoke(SYS_readv, fd, iov, count));
}

ssize_t write(int fd, const void* buffer, size_t count) {
  return with_errno(sys::invoke(SYS_write, fd, buffer, count));
}

ssize_t writev(int fd, const iovec* iov, int count) {
  return with_errno(sys::invoke(SYS_writev, fd, iov, count));
}

ssize_t getrandom(void* buffer, size_t count, unsigned flags) {
  return with_errno(sys::invoke(SYS_getrandom, buffer, count, flags));
}

// The kernel takes offsets in two halves, of which 64-bit ABIs use the first.
ssize_t preadv(int fd, const iovec* iov, int count, off_t offset) {
  return with_errno(sys::invoke(SYS_preadv, fd, iov, count, offset, 0L));
}

ssize_t preadv2(int fd, const iovec* iov, int count, off_t offset, int flags) {
  return with_errno(
      sys::invoke(SYS_preadv2, fd, iov, count, offset, 0L, flags));
}

off_t lseek(int fd, off_t offset, int whence) {
  return with_errno(sys::invoke(SYS_lseek, fd, offset, whence));
}

int close(int fd) {
  return static_cast<int>(with_errno(sys::invoke(SYS_close, fd)));
}

int close_range(unsigned first, unsigned last, int flags) {
  return static_cast<int>(
      with_errno(sys::invoke(SYS_close_range, first, last, flags)));
}

void closefrom(int first) {
  const int from = first < 0 ? 0 : first;
  sys::invoke(SYS_close_range, from, ~0u, 0);
}

int dup(int fd) {
  return static_cast<int>(with_errno(sys::invoke(SYS_dup, fd)));
}

// Without dup2(2), as on aarch64: dup3 does not allow equal numbers.
int dup2(int from, int to) {
  if (from == to) {
    const long flags = sys::invoke(SYS_fcntl, from, F_GETFD);
    return static_cast<int>(with_errno(sys::failed(flags) ? flags : to));
  }
  return static_cast<int>(with_errno(sys::invoke(SYS_dup3, from, to, 0)));
}

int dup3(int from, int to, int flags) {
  return static_cast<int>(with_errno(sys::invoke(SYS_dup3, from, to, flags)));
}

int fcntl(int fd, int command, ...) {
  va_list rest;
  va_start(rest, command);
  const long argument = va_arg(rest, long);
  va_end(rest);
  return static_cast<int>(
      with_errno(sys::invoke(SYS_fcntl, fd, command, argument)));
}

int ioctl(int fd, unsigned long request, ...) {
  va_list rest;
  va_start(rest, request);
  void* argument = va_arg(rest, void*);
  va_end(rest);
  return static_cast<int>(
      with_errno(sys::invoke(SYS_ioctl, fd, request, argument)));
}

// The posix_ ones return the error and leave errno alone.
int posix_fadvise(int fd, off_t offset, off_t length, int advice) {
  return static_cast<int>(
      -sys::invoke(SYS_fadvise64, fd, offset, length, advice));
}

ssize_t readahead(int fd, off_t offset, size_t count) {
  return with_errno(sys::invoke(SYS_readahead, fd, offset, count));
}

int madvise(void* address, size_t length, int advice) {
  return static_cast<int>(
      with_errno(sys::invoke(SYS_madvise, address, length, advice)));
}

// POSIX's DONTNEED may not lose changes, Linux's may: libc does nothing.
int posix_madvise(void* address, size_t length, int advice) {
  if (advice == POSIX_MADV_DONTNEED) return 0;
  return static_cast<int>(-sys::invoke(SYS_madvise, address, length, advice));
}

}  // namespace raw

}  // namespace racache::preload
