// SPDX-License-Identifier: MIT
#include "preload/descriptors.h"

#include <fcntl.h>
#include <cerrno>

#include "core/copy.h"
#include "core/engine.h"
#include "preload/adoption.h"
#include "preload/faults.h"
#include "preload/fd_table.h"
#include "preload/process.h"

namespace racache::preload {
namespace {

// What the lock counts from; SEEK_SET if the pointer is bad, which the kernel
// will say. The fault handler makes looking safe. The actions of a vfork child
// are its own, so there nothing is installed: its kind of lock is not known.
int whence_of(const struct flock* lock) {
  if (!in_own_process()) return SEEK_CUR;
  faults::arm();
  auto whence = static_cast<short>(SEEK_SET);
  const size_t size = sizeof whence;
  if (racache_copy(&whence, &lock->l_whence, size) != size) return SEEK_SET;
  return whence;
}

// Record locks relative to the file position.
void before_lock(int fd, long argument) {
  const auto* lock = reinterpret_cast<const struct flock*>(argument);
  if (lock != nullptr && whence_of(lock) == SEEK_CUR) share_position(fd);
}

}  // namespace

// -1 is also the ring's number when there is none.
bool is_ring(int fd) {
  return RACACHE_UNLIKELY(fd >= 0 && fd == engine::ring_fd());
}

int closed_number() {
  errno = EBADF;
  return -1;
}

// Between the kernel's dup2 and ours another thread may read the number: it
// must find the position in the kernel. A number that dup() makes is not known
// to anybody yet.
void before_replacing(int from, int to) {
  if (is_ring(to)) engine::move_ring_fd();
  if (tracked(from) && (!single_threaded() || !in_own_process()))
    share_position(from);
  fd_replacing(to);
}

// In a vfork child the new number is unknown to the table: the kernel reads
// there. A slot that names something was closed behind our back.
void after_duplicating(int from, int to) {
  if (to < 0) return;
  if (!tracked(from)) return fd_closing(to);
  if (!in_own_process()) share_position(from);
  fd_duplicated(from, to);
}

void before_fcntl(int fd, int command, long argument) {
  if (RACACHE_LIKELY(!tracked(fd))) return;
  switch (command) {
    case F_SETLK:
    case F_SETLKW:
    case F_GETLK:
    case F_OFD_SETLK:
    case F_OFD_SETLKW:
    case F_OFD_GETLK:
      before_lock(fd, argument);
      break;
    case F_SETFL:
      if ((argument & O_DIRECT) != 0) give_to_kernel(fd);
      break;
    default:
      break;
  }
}

bool duplicates(int command) {
  return command == F_DUPFD || command == F_DUPFD_CLOEXEC;
}

}  // namespace racache::preload
