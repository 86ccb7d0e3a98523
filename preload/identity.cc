// SPDX-License-Identifier: MIT
// User and group ids, and what goes with them.
//
// To the kernel they belong to a thread. libc makes the calls on all threads
// that it knows; those of the engine it does not know, so they follow: with the
// same arguments, from the same ids, after the program's own call has succeeded
// and while the caller waits. What changes the calling thread only (setfsuid,
// capset, a call by number) is followed where that thread is the whole program.
#include "preload/identity.h"

#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <cstdarg>

#include "core/cache.h"
#include "core/mapping.h"
#include "preload/fd_table.h"
#include "preload/process.h"
#include "preload/real.h"
#include "preload/sandbox.h"

namespace racache::preload {
namespace {

// A vfork child changes ids of its own.
template <class... A>
int followed(int result, long number, A... arguments) {
  if (result == 0 && in_own_process()) {
    engine::follow({number, sys::arg(arguments)...});
  }
  return result;
}

// Whether a change of the calling thread is one of the program.
bool alone() { return single_threaded() && in_own_process(); }

constexpr int kKeep = -1;

}  // namespace

void follow_alone(long number, long a, long b, long c) {
  if (alone()) engine::follow({number, a, b, c});
}

// The header may name the caller by its number.
void follow_capset(const void* header, const void* data) {
  struct {
    uint32_t version;
    int pid;
  } own;
  __builtin_memcpy(&own, header, sizeof own);
  own.pid = 0;
  follow_alone(SYS_capset, sys::arg(&own), sys::arg(data), 0);
}

bool changes_identity(int option) {
  return option == PR_SET_KEEPCAPS || option == PR_CAPBSET_DROP ||
         option == PR_SET_SECUREBITS || option == PR_CAP_AMBIENT ||
         option == PR_SET_NO_NEW_PRIVS;
}

namespace hook {

int setuid(uid_t id) { return followed(real::setuid(id), SYS_setuid, id); }
int setgid(gid_t id) { return followed(real::setgid(id), SYS_setgid, id); }

// libc's own rendering of the two.
int seteuid(uid_t id) {
  return followed(real::seteuid(id), SYS_setresuid, kKeep, id, kKeep);
}
int setegid(gid_t id) {
  return followed(real::setegid(id), SYS_setresgid, kKeep, id, kKeep);
}

int setreuid(uid_t real_id, uid_t effective) {
  return followed(real::setreuid(real_id, effective), SYS_setreuid, real_id,
                  effective);
}
int setregid(gid_t real_id, gid_t effective) {
  return followed(real::setregid(real_id, effective), SYS_setregid, real_id,
                  effective);
}

int setresuid(uid_t real_id, uid_t effective, uid_t saved) {
  return followed(real::setresuid(real_id, effective, saved), SYS_setresuid,
                  real_id, effective, saved);
}
int setresgid(gid_t real_id, gid_t effective, gid_t saved) {
  return followed(real::setresgid(real_id, effective, saved), SYS_setresgid,
                  real_id, effective, saved);
}

int setgroups(size_t count, const gid_t* groups) {
  return followed(real::setgroups(count, groups), SYS_setgroups, count, groups);
}

// Which groups these are, only the kernel can say.
int initgroups(const char* user, gid_t group) {
  constexpr size_t kMost = 65536;
  const int result = real::initgroups(user, group);
  if (result != 0 || !in_own_process() || engine::generation() == 0) {
    return result;
  }
  void* groups = mapping::reserve(kMost * sizeof(gid_t), MADV_DONTFORK);
  const long count =
      groups == nullptr ? -1 : sys::invoke(SYS_getgroups, kMost, groups);
  if (count < 0) {
    engine::shut_down();
  } else {
    engine::follow({SYS_setgroups, count, sys::arg(groups)});
  }
  if (groups != nullptr) mapping::release(groups, kMost * sizeof(gid_t));
  return result;
}

// These two return the former id, whatever happens.
int setfsuid(uid_t id) {
  const int former = real::setfsuid(id);
  follow_alone(SYS_setfsuid, id, 0, 0);
  return former;
}
int setfsgid(gid_t id) {
  const int former = real::setfsgid(id);
  follow_alone(SYS_setfsgid, id, 0, 0);
  return former;
}

int capset(void* header, const void* data) {
  const int result = real::capset(header, data);
  if (result == 0) follow_capset(header, data);
  return result;
}

// Four more arguments at most, as libc's own wrapper takes them.
int prctl(int option, ...) {
  va_list rest;
  va_start(rest, option);
  const long a = va_arg(rest, long), b = va_arg(rest, long);
  const long c = va_arg(rest, long), d = va_arg(rest, long);
  va_end(rest);
  before_prctl(option, a, b);
  const int result = real::prctl(option, a, b, c, d);
  if (result >= 0 && changes_identity(option)) {
    follow_alone(SYS_prctl, option, a, b);
  }
  return result;
}

}  // namespace hook

namespace raw {

int prctl(int option, ...) {
  va_list rest;
  va_start(rest, option);
  const long a = va_arg(rest, long), b = va_arg(rest, long);
  const long c = va_arg(rest, long), d = va_arg(rest, long);
  va_end(rest);
  return static_cast<int>(
      with_errno(sys::invoke(SYS_prctl, option, a, b, c, d)));
}

}  // namespace raw
}  // namespace racache::preload
