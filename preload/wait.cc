// SPDX-License-Identifier: MIT
// Waits that the kernel never restarts.
//
// Completions of asynchronous reads interrupt the thread that submitted them.
// Most calls are restarted and nothing shows; these return EINTR, which the
// program would not see without us. So they wait first, at most 2 ms, until
// nothing of this thread's is in flight: one load when nothing is. Sockets with
// a receive or send timeout have the same trait, see stream.cc.
#include <ctime>

#include "core/cache.h"
#include "preload/real.h"

namespace racache::preload::hook {

// Without a wait there is no EINTR.
int epoll_wait(int fd, epoll_event* events, int room, int timeout) {
  if (timeout != 0) engine::quiesce();
  return real::epoll_wait(fd, events, room, timeout);
}

int epoll_pwait(int fd, epoll_event* events, int room, int timeout,
                const sigset_t* mask) {
  if (timeout != 0) engine::quiesce();
  return real::epoll_pwait(fd, events, room, timeout, mask);
}

int epoll_pwait2(int fd, epoll_event* events, int room, const timespec* timeout,
                 const sigset_t* mask) {
  engine::quiesce();
  return real::epoll_pwait2(fd, events, room, timeout, mask);
}

int semop(int id, sembuf* operations, size_t count) {
  engine::quiesce();
  return real::semop(id, operations, count);
}

int semtimedop(int id, sembuf* operations, size_t count,
               const timespec* timeout) {
  engine::quiesce();
  return real::semtimedop(id, operations, count, timeout);
}

int sigtimedwait(const sigset_t* set, void* info, const timespec* timeout) {
  engine::quiesce();
  return real::sigtimedwait(set, info, timeout);
}

int sigwaitinfo(const sigset_t* set, void* info) {
  engine::quiesce();
  return real::sigwaitinfo(set, info);
}

}  // namespace racache::preload::hook
