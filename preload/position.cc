// SPDX-License-Identifier: MIT
// The transitions between the forms of the word (position.h). Whoever makes it
// `moving` has signals blocked and makes at most two lseek calls before it ends
// that, so waiting for it is short and can never be waiting for oneself.
#include "preload/position.h"

#include <unistd.h>

#include "core/lock.h"

namespace racache::preload::position {
namespace {

// seq_cst, against the look of who shares all positions at the word of each.
constinit std::atomic<bool> all_in_kernel{false};

long kernel_seek(int fd, int64_t offset, int whence) {
  return sys::invoke(SYS_lseek, fd, offset, whence);
}

void end_move(OpenFile& open, int64_t word) {
  if ((open.position.exchange(word) & kWaiters) != 0) {
    sys::futex_wake(&open.position, sys::kWakeAll);
  }
}

// From `word` to moving, if the number is still this description's. The order
// is the point (see the invariants): exchange first, then look at the slot.
bool begin_move(const Held& held, int64_t word) {
  int64_t expected = word;
  if (!held->position.compare_exchange_strong(expected, kMoving)) return false;
  if (RACACHE_LIKELY(held.here())) return true;
  end_move(*held, word);
  return false;
}

// The whole seek in the kernel: its position is set to ours first, because
// SEEK_CUR, errors and limits are relative to it.
long seek_by_kernel(const Held& held, int64_t word, off_t offset, int whence) {
  kernel_seek(held.fd(), word, SEEK_SET);
  const long result = kernel_seek(held.fd(), offset, whence);
  end_move(*held, sys::failed(result) ? word : result);
  return result;
}

}  // namespace

void wait_while_moving(OpenFile& open) {
  int64_t word = open.position.load();
  if (!is_moving(word)) return;
  // A waiter says so, or the mover would have to make a system call for nobody.
  if ((word & kWaiters) == 0 &&
      !open.position.compare_exchange_strong(word, word | kWaiters)) {
    return;
  }
  // The low half, on little-endian machines the first. A private position may
  // look the same by chance: hence the time limit.
  const timespec limit{0, 1000000};
  sys::futex_wait(&open.position, static_cast<uint32_t>(kMoving | kWaiters),
                  &limit);
}

bool KernelUse::enter(OpenFile& open) {
  int64_t word = open.position.load();
  while (is_kernel(word)) {
    if (count_of(word) == kCountMask) return true;  // stuck: never private
    if (open.position.compare_exchange_weak(word, word + 1)) {
      open_ = &open;
      incarnation_ = open.incarnation;
      return true;
    }
  }
  return is_shared(word);
}

void KernelUse::leave() {
  int64_t word = open_->position.load();
  const int64_t mine = in_kernel(incarnation_);
  while ((word & ~kCountMask) == mine && count_of(word) != 0) {
    if (open_->position.compare_exchange_weak(word, word - 1)) return;
  }
}

void stay_in_kernel() { all_in_kernel.store(true); }

void make_private(const Held& held) {
  if (all_in_kernel.load()) return (void)share(held);
  const int64_t word = in_kernel(held->incarnation);
  if (!begin_move(held, word)) return;
  const long at = kernel_seek(held.fd(), 0, SEEK_CUR);
  end_move(*held, sys::failed(at) ? kShared : at);
}

void make_private_if_idle(const Held& held) {
  if (RACACHE_LIKELY(held->position.load() != in_kernel(held->incarnation)))
    return;
  SignalGuard signals;
  make_private(held);
}

bool share(const Held& held) {
  SignalGuard signals;
  for (;;) {
    int64_t word = held->position.load();
    if (is_shared(word)) return true;
    if (is_moving(word)) {
      wait_while_moving(*held);
    } else if (is_kernel(word)) {
      if (held->position.compare_exchange_strong(word, kShared)) return true;
    } else if (begin_move(held, word)) {
      kernel_seek(held.fd(), word, SEEK_SET);
      end_move(*held, kShared);
      return true;
    } else if (!held.here()) {
      return false;
    }
  }
}

long seek(const Held& held, off_t offset, int whence, KernelUse& use) {
  for (;;) {
    const int64_t word = held->position.load();
    if (is_moving(word)) {
      wait_while_moving(*held);
    } else if (!is_private(word)) {
      if (use.enter(*held)) return kPass;
    } else {
      SignalGuard signals;
      if (begin_move(held, word))
        return seek_by_kernel(held, word, offset, whence);
      if (!held.here()) return kPass;
    }
  }
}

void wait_until_still(OpenFile& open) {
  for (;;) {
    const int64_t word = open.position.load();
    if (!is_moving(word) || stale(open.status.load())) return;
    wait_while_moving(open);
  }
}

}  // namespace racache::preload::position
