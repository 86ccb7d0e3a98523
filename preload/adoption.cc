// SPDX-License-Identifier: MIT
// The owner of the stage `adopting` has signals blocked: a handler on its
// thread that read the same description would wait for itself. Where a stage is
// taken over by compare-and-swap, the loser looks at the new one and goes on
// there.
#include "preload/adoption.h"

#include <fcntl.h>
#include <cerrno>
#include <csignal>

#include "core/lock.h"
#include "preload/faults.h"
#include "preload/init.h"
#include "preload/position.h"

namespace racache::preload::adoption {
namespace {

constexpr uint32_t kFirstBackoffMs = 100;
constexpr uint32_t kLastBackoffMs = 60000;

// Coarse: a description that waits for its time looks at every call.
uint64_t now_ms() { return sys::coarse_ns() / 1'000'000; }

// The low half of the word is the futex (little-endian machines only). A waiter
// says so, or the adopter would have to make a system call for nobody.
void wait_for_adopter(OpenFile& open, uint64_t status) {
  SignalGuard signals;
  if ((status & kStatusWaiters) == 0 &&
      !open.status.compare_exchange_strong(status, status | kStatusWaiters)) {
    return;
  }
  sys::futex_wait(&open.status, static_cast<uint32_t>(status | kStatusWaiters));
}

// Makes the calling thread the owner of the plain members.
bool begin(OpenFile& open, uint64_t status) {
  return open.status.compare_exchange_strong(status,
                                             status_now(Stage::kAdopting));
}

// Publishes what the owner wrote (release) and lets the others go on.
void end(OpenFile& open, Stage stage, Reason reason = Reason::kNone) {
  const uint64_t before = open.status.exchange(status_now(stage, reason));
  if ((before & kStatusWaiters) != 0) {
    sys::futex_wake(&open.status, sys::kWakeAll);
  }
}

// For now. Each time in a row doubles the time until the next attempt; a file
// that was cached for long starts afresh.
void refuse(OpenFile& open, Reason reason) {
  const uint64_t now = now_ms();
  const bool afresh =
      open.backoff_ms == 0 ||
      (open.adopted_at_ms != 0 && now - open.adopted_at_ms > kLastBackoffMs);
  open.backoff_ms = afresh ? kFirstBackoffMs : 2 * open.backoff_ms;
  if (open.backoff_ms > kLastBackoffMs) open.backoff_ms = kLastBackoffMs;
  open.adopted_at_ms = 0;
  open.retry_at_ms.store(now + open.backoff_ms, std::memory_order_relaxed);
  end(open, Stage::kRefused, reason);
}

// The file as long as the engine is the one that gave it.
File* engines_file(const OpenFile& open) {
  File* file = open.file.load(std::memory_order_relaxed);
  if (open.generation.load(std::memory_order_relaxed) != engine::generation())
    return nullptr;
  return file;
}
File* readable_file(const OpenFile& open) {
  File* file = engines_file(open);
  return file != nullptr && cache::readable(*file) ? file : nullptr;
}

// Of an earlier adoption. Others may be using it under their pins.
bool drop_old_file(OpenFile& open) {
  File* old = engines_file(open);
  if (old != nullptr) {
    if (pins_of(open.references.load()) != 1) return false;
    engine::release(*old, engine::generation());
  }
  open.file.store(nullptr, std::memory_order_relaxed);
  return true;
}

void tell_advice(OpenFile& open, File& file) {
  const uint8_t advice = open.advice.load();
  if ((advice & Advice::kSequential) != 0)
    cache::advise(file, open.stream, POSIX_FADV_SEQUENTIAL);
  if ((advice & Advice::kRandom) != 0)
    cache::advise(file, open.stream, POSIX_FADV_RANDOM);
  if ((advice & Advice::kNoReuse) != 0)
    cache::advise(file, open.stream, POSIX_FADV_NOREUSE);
}

void take(const Held& held, const engine::Adopted& adopted) {
  OpenFile& open = *held;
  // The engine went by the number. If that is another file's by now, so is
  // what it adopted; unlinked before closed, so one look suffices.
  if (!held.here()) {
    engine::release(*adopted.file, adopted.generation);
    return end(open, Stage::kUntried);
  }
  open.file.store(adopted.file, std::memory_order_relaxed);
  open.generation.store(adopted.generation, std::memory_order_relaxed);
  open.adopted_at_ms = now_ms();
  tell_advice(open, *adopted.file);
  position::make_private(held);
  end(open, Stage::kCached);
}

void adopt(const Held& held) {
  OpenFile& open = *held;
  if (!drop_old_file(open)) return refuse(open, Reason::kBroken);
  const int saved_errno = errno;
  const engine::Adopted adopted = engine::adopt(held.fd(), open.stream);
  errno = saved_errno;
  if (adopted.file != nullptr) {
    faults::arm();
    take(held, adopted);
  } else if (adopted.retry) {
    refuse(open, adopted.reason);
  } else {
    end(open, Stage::kKernels, adopted.reason);
  }
}

bool due(const OpenFile& open) {
  return now_ms() >= open.retry_at_ms.load(std::memory_order_relaxed);
}

// From untried or refused. False: not by this thread, not now. What a glance
// shows to be the kernel's, as most files are, costs no more than the glance.
bool try_adopt(const Held& held, uint64_t status) {
  if (state() != State::kReady) return false;
  const Reason reason = engine::hopeless(held.fd());
  if (!held.here()) return false;
  if (reason != Reason::kNone) {
    held->status.compare_exchange_strong(status,
                                         status_now(Stage::kKernels, reason));
    return true;
  }
  if (on_alternate_stack() || !in_own_process()) return false;
  SignalGuard signals;
  if (begin(*held, status)) adopt(held);
  return true;
}

// A writer came, or the engine is no more. What was private goes back to the
// kernel before any call goes there. False: closed meanwhile.
bool lose(const Held& held, uint64_t status) {
  SignalGuard signals;
  if (!begin(*held, status)) return true;
  if (position::share(held)) {
    refuse(*held, Reason::kBroken);
    return true;
  }
  end(*held, Stage::kCached);
  return false;
}

}  // namespace

File* obtain(const Held& held, May may) {
  OpenFile& open = *held;
  for (;;) {
    const uint64_t status = open.status.load();
    if (stale(status)) {
      renew(held);
      continue;
    }
    switch (stage_of(status)) {
      case Stage::kKernels:
        return nullptr;
      case Stage::kAdopting:
        wait_for_adopter(open, status);
        break;
      case Stage::kCached:
        if (File* file = readable_file(open)) return file;
        // Maybe it is only that nobody has looked: the process was stopped.
        if (!engine::leases_watched()) {
          engine::settle_breaks(engine::Patience::kKernelServes);
        }
        if (File* file = readable_file(open)) return file;
        if (!lose(held, status)) return nullptr;
        break;
      case Stage::kRefused:
        if (!due(open)) return nullptr;
        [[fallthrough]];
      case Stage::kUntried:
        if (may == May::kOnlyLook || !try_adopt(held, status)) return nullptr;
    }
  }
}

File* look(const Held& held) {
  const uint64_t status = held->status.load();
  if (stale(status) || stage_of(status) != Stage::kCached) return nullptr;
  return readable_file(*held);
}

void give_up(const Held& held) {
  OpenFile& open = *held;
  for (;;) {
    const uint64_t status = open.status.load();
    if (stale(status)) {
      renew(held);
    } else if (stage_of(status) == Stage::kAdopting) {
      wait_for_adopter(open, status);
    } else {
      SignalGuard signals;
      if (!begin(open, status)) continue;
      position::share(held);
      drop_old_file(open);  // or at the last close, when others use it now
      return end(open, Stage::kKernels, Reason::kEscaped);
    }
  }
}

// Its position was written back before the fork. If the child was made behind
// our back, this is the last moment to do it; `moving` is then another thread's
// lseek on the same open file, done by now.
void renew(const Held& held) {
  OpenFile& open = *held;
  SignalGuard signals;
  const uint64_t status = open.status.load();
  if (!stale(status) || !begin(open, status)) return;
  const int64_t word = open.position.load();
  if (position::is_private(word)) {
    sys::invoke(SYS_lseek, held.fd(), word, SEEK_SET);
  }
  open.position.store(position::kShared);
  open.file.store(nullptr, std::memory_order_relaxed);
  open.backoff_ms = 0;
  end(open, Stage::kUntried);
}

bool on_alternate_stack() {
  stack_t stack{};
  if (sys::invoke(SYS_sigaltstack, 0L, &stack) != 0) return false;
  return (stack.ss_flags & SS_ONSTACK) != 0;
}

}  // namespace racache::preload::adoption

namespace racache::preload {

void give_to_kernel(int fd) {
  if (!tracked(fd)) return;
  const Held held(fd);
  if (held) adoption::give_up(held);
}

}  // namespace racache::preload
