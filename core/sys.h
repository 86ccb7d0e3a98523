// SPDX-License-Identifier: MIT
// System calls without libc: no errno, no cancellation point, no interposer.
// Every function returns what the kernel returns: a value, or -errno.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <type_traits>

#include <linux/futex.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

#include "core/base.h"
#include "core/fault_point.h"
#include "core/vdso.h"

struct stat;

namespace racache::sys {

#if defined(__x86_64__)
inline long call(long nr, long a = 0, long b = 0, long c = 0, long d = 0,
                 long e = 0, long f = 0) {
  long ret;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  asm volatile("syscall"
               : "=a"(ret)
               : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return ret;
}
#elif defined(__aarch64__)
inline long call(long nr, long a = 0, long b = 0, long c = 0, long d = 0,
                 long e = 0, long f = 0) {
  register long x8 asm("x8") = nr;
  register long x0 asm("x0") = a;
  register long x1 asm("x1") = b;
  register long x2 asm("x2") = c;
  register long x3 asm("x3") = d;
  register long x4 asm("x4") = e;
  register long x5 asm("x5") = f;
  asm volatile("svc #0"
               : "+r"(x0)
               : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
               : "memory");
  return x0;
}
#else
#error "racache: no raw system call for this architecture"
#endif

// Argument of any integer or pointer type, as the kernel takes it.
template <class T>
long arg(T x) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<long>(x);
  } else {
    return static_cast<long>(x);
  }
}
template <class... T>
long invoke(long nr, T... args) {
  if (fault::point(nr)) return -ENOMEM;
  return call(nr, arg(args)...);
}
constexpr bool failed(long ret) {
  return static_cast<unsigned long>(ret) >= static_cast<unsigned long>(-4095);
}

// The CPU's, as the kernel maps and caches; the cache's own is kPageSize.
inline uint64_t page_size() { return getauxval(AT_PAGESZ); }
inline int gettid() { return static_cast<int>(invoke(SYS_gettid)); }
inline int getpid() { return static_cast<int>(invoke(SYS_getpid)); }
inline uint64_t clock_ns(clockid_t clock) {
  timespec ts;
  vdso::clock_gettime(clock, &ts);
  return static_cast<uint64_t>(ts.tv_sec) * 1000000000u +
         static_cast<uint64_t>(ts.tv_nsec);
}
inline uint64_t monotonic_ns() { return clock_ns(CLOCK_MONOTONIC); }
// The same clock, behind by a tick at most; a quarter of the cost.
inline uint64_t coarse_ns() { return clock_ns(CLOCK_MONOTONIC_COARSE); }

inline timespec to_timespec(uint64_t ns) {
  return {static_cast<time_t>(ns / 1000000000u),
          static_cast<long>(ns % 1000000000u)};
}

// fstat(2).
inline long status_of(int fd, struct stat* status) {
#if defined(__x86_64__)
  return invoke(SYS_fstat, fd, status);
#else
  return invoke(SYS_newfstatat, fd, "", status, 0x1000 /* AT_EMPTY_PATH */);
#endif
}

// futex(2), private. wait: 0, -EAGAIN (word != expected), -EINTR, -ETIMEDOUT.
inline long futex_wait(const void* word, uint32_t expected,
                       const timespec* timeout = nullptr) {
  return invoke(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, timeout);
}
inline long futex_wake(const void* word, int count) {
  return invoke(SYS_futex, word, FUTEX_WAKE_PRIVATE, count);
}
inline constexpr int kWakeAll = 0x7fffffff;

}  // namespace racache::sys
