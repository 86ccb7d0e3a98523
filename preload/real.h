// SPDX-License-Identifier: MIT
// The real functions behind the hooks, derived from hooks.def.
//
//   hook::name  what we export under libc's name
//   real::name  what it forwards to: a pointer, racache_real_name in assembly.
//               At first raw::name (or, where libc alone has the function, a
//               first call that looks it up); our constructor puts in what
//               dlsym(RTLD_NEXT) finds, which keeps libc's cancellation points
//               and other preload libraries behind us working.
//   raw::name   the bare system call with errno, racache_raw_name in assembly
//
// The asm labels give a hook its exported name without clashing with libc's
// own declaration, whose attributes (nonnull, noexcept) must not reach us: a
// program may pass a null pointer, and the kernel's EFAULT is the right answer.
//
// A pointer changes once, in the constructor, from one right answer to another;
// aligned pointer stores are not torn, so readers need no ordering.
#pragma once

#include <sys/types.h>
#include <cerrno>

#include "core/sys.h"

struct iovec;
struct open_how;
struct msghdr;
struct mmsghdr;
struct sockaddr;
struct epoll_event;
struct sembuf;
struct timespec;
struct sigaction;
struct _IO_FILE;
struct __dirstream;

#define RACACHE_EXPORT [[gnu::visibility("default")]]

namespace racache::preload {

using handler_type = void(int);

namespace hook {
#define RACACHE_HOOK(name, result, parameters, family) \
  RACACHE_EXPORT result name parameters asm(#name);
#define RACACHE_LIBC RACACHE_HOOK
#define RACACHE_ONLY RACACHE_HOOK
#include "preload/hooks.def"
}  // namespace hook

namespace type {  // the function types
#define RACACHE_HOOK(name, result, parameters, family) \
  using name = result parameters;
#define RACACHE_LIBC RACACHE_HOOK
#include "preload/hooks.def"
}  // namespace type

#pragma GCC visibility push(hidden)  // no detour by the global offset table
namespace real {
#define RACACHE_HOOK(name, result, parameters, family) \
  extern type::name* name asm("racache_real_" #name);
#define RACACHE_LIBC RACACHE_HOOK
#include "preload/hooks.def"

// Looks all of them up; from the constructor.
void resolve();
}  // namespace real

namespace raw {
#define RACACHE_HOOK(name, result, parameters, family) \
  result name parameters asm("racache_raw_" #name);
#include "preload/hooks.def"
}  // namespace raw
#pragma GCC visibility pop

// A kernel's answer as libc gives it: the value, or -1 with errno set.
inline long with_errno(long ret) {
  if (RACACHE_LIKELY(!sys::failed(ret))) return ret;
  errno = static_cast<int>(-ret);
  return -1;
}

}  // namespace racache::preload

// After the definition of hook::name, in the same file, at namespace scope of
// racache::preload: exports the same function under another name.
#define RACACHE_DEFINE_TWIN(twin, name)                \
  namespace hook {                                     \
  RACACHE_EXPORT extern decltype(name) twin asm(#twin) \
      __attribute__((alias(#name)));                   \
  }
