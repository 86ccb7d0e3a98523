// SPDX-License-Identifier: MIT
// The signals are held back by the thread's own mask and taken back from its
// own queue, so neither handlers nor dispositions of the process are touched,
// and other threads notice nothing.
#include "core/quiet_write.h"

#include <cerrno>
#include <csignal>

#include "core/sys.h"

namespace racache {
namespace {

using KernelSignals = uint64_t;  // bit n - 1 is signal n

constexpr KernelSignals bit(int signal) {
  return KernelSignals{1} << (signal - 1);
}
constexpr KernelSignals kHeldBack = bit(SIGPIPE) | bit(SIGXFSZ) | bit(SIGTTOU);

KernelSignals pending() {
  KernelSignals set = 0;
  sys::invoke(SYS_rt_sigpending, &set, sizeof set);
  return set;
}

// Both signals are sent to the writing thread, so what was not pending before
// and is pending now is ours.
void take_back(KernelSignals before) {
  const KernelSignals raised =
      pending() & ~before & (bit(SIGPIPE) | bit(SIGXFSZ));
  if (raised == 0) return;
  const timespec now{};
  sys::invoke(SYS_rt_sigtimedwait, &raised, 0L, &now, sizeof raised);
}

}  // namespace

long quiet_write(int fd, const iovec* iov, int count) {
  KernelSignals saved = 0;
  sys::invoke(SYS_rt_sigprocmask, SIG_BLOCK, &kHeldBack, &saved, sizeof saved);
  const KernelSignals before = pending();
  const long result = sys::invoke(SYS_writev, fd, iov, count);
  if (result == -EPIPE || result == -EFBIG) take_back(before);
  sys::invoke(SYS_rt_sigprocmask, SIG_SETMASK, &saved, 0L, sizeof saved);
  return result;
}

long quiet_write_all(int fd, const char* data, size_t size) {
  int patience = 16;
  while (size != 0) {
    const iovec piece{const_cast<char*>(data), size};
    const long n = quiet_write(fd, &piece, 1);
    if (n == -EINTR && patience-- > 0) continue;
    if (n < 0) return n;
    if (n == 0) return -EIO;  // a device that takes nothing would loop us
    data += n;
    size -= static_cast<size_t>(n);
  }
  return 0;
}

}  // namespace racache
