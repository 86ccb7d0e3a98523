// SPDX-License-Identifier: MIT
// Who waits, and who reaps.
//
// Two bits of `state` say who is at work; both are only ever tried for, never
// waited for:
//   kReaping  someone pops completions and runs their done(). done() may
//             submit, since nobody waits for the bit.
//   kRole     the reaper: of all waiters, the one that sleeps in the kernel
//             until a completion arrives. The others sleep on their words.
// Whenever a thread leaves with neither bit set behind it, while reads are in
// flight and sleepers are in the list, it kicks one of them (hand_over); so
// does a submitter who finds sleepers that slept because nothing was in
// flight, and a sleeper who returns to its caller, as it may have been the one
// kicked. A sleeper enters the list before it looks at `state` and in_flight();
// the others change these before they look at the list. All of it is seq_cst,
// so at least one side sees the other.
//
// The reaper must not sleep in the kernel for a completion that another thread
// pops just before. So it freezes the ring (uring_ring.h) while it holds
// kReaping and its word is busy: any completion popped later ends its sleep.
#include "core/backend_uring.h"

#include <sys/mman.h>
#include <cerrno>
#include <new>

#include "core/uring_ring.h"
#include "core/wait_list.h"

namespace racache {
namespace {

constexpr uint32_t kReaping = 1;
constexpr uint32_t kRole = 2;
constexpr unsigned kBatch = 16;
constexpr uint64_t kUnlistedSleep = 1000000;  // ns; nobody can kick us

struct Uring : Backend {
  Ring ring;
  SleeperList sleepers;
  std::atomic<uint32_t> state{0};
  uint64_t poll_ns = 0;
  uint64_t sleep_ns = 0;
  // Counters: relaxed, they order nothing.
  std::atomic<uint64_t> polls{0}, polled{0}, reaps{0}, sleeps{0}, kicks{0},
      overflow{0}, rescues{0}, retried{0};
};

Uring& of(Backend& self) { return static_cast<Uring&>(self); }

void count(std::atomic<uint64_t>& counter) {
  counter.fetch_add(1, std::memory_order_relaxed);
}
void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

bool try_take(Uring& u, uint32_t bit) {
  return (u.state.fetch_or(bit, std::memory_order_seq_cst) & bit) == 0;
}
// Reads are in flight, and no one sees to them.
bool orphaned(Uring& u) {
  return u.state.load(std::memory_order_seq_cst) == 0 && u.ring.in_flight();
}
void hand_over(Uring& u) {
  if (u.sleepers.empty() || !orphaned(u)) return;
  if (u.sleepers.kick_one()) count(u.kicks);
}
void give_up(Uring& u, uint32_t bit) {
  u.state.fetch_and(~bit, std::memory_order_seq_cst);
  hand_over(u);
}

unsigned submit(Backend& self, ReadOp* const* ops, unsigned n);

void finish(Uring& u, ReadOp& op, long result) {
  // The kernel cancels what a thread submitted when that thread ends. Others
  // may want the data.
  if (result == -ECANCELED || result == -EINTR) {
    ReadOp* again = &op;
    count(u.retried);
    if (submit(u, &again, 1) == 1) return;
  }
  op.done(op, result);
}

// Holding kReaping. Runs what had completed when it began, and no more, lest
// one thread serve all others for ever.
void deliver(Uring& u) {
  Ring::Completion batch[kBatch];
  for (unsigned left = u.ring.completed(); left > 0;) {
    const unsigned n = u.ring.pop(batch, left < kBatch ? left : kBatch);
    if (n == 0) return;
    u.ring.publish();
    for (unsigned i = 0; i < n; ++i) finish(u, *batch[i].op, batch[i].result);
    left -= n;
  }
  u.ring.publish();
}

void poll(Backend& self) {
  Uring& u = of(self);
  if (u.ring.completed() == 0 || !try_take(u, kReaping)) return;
  deliver(u);
  give_up(u, kReaping);
}

unsigned submit(Backend& self, ReadOp* const* ops, unsigned n) {
  Uring& u = of(self);
  unsigned taken = 0;
  while (taken < n) {
    unsigned got = u.ring.place(ops + taken, n - taken);
    if (got == 0) {
      // Full: make room, or leave the rest to the caller.
      poll(u);
      got = u.ring.place(ops + taken, n - taken);
    }
    if (got == 0) break;
    taken += got;
    u.ring.flush();
  }
  hand_over(u);
  return taken;
}

// True when the word is done.
bool poll_for(Uring& u, std::atomic<uint32_t>& word, uint32_t mask) {
  poll(u);
  if (!busy(word, mask)) return true;
  if (u.poll_ns == 0) return false;
  count(u.polls);
  const uint64_t end = sys::monotonic_ns() + u.poll_ns;
  do {
    relax();
    poll(u);
    if (!busy(word, mask)) return count(u.polled), true;
  } while (sys::monotonic_ns() < end);
  return false;
}

// Holding kRole. Returns when the word is done, when nothing is in flight, or
// when someone else is delivering: then our completion may be in that thread's
// hands, and no longer wake us here.
void reap_until(Uring& u, std::atomic<uint32_t>& word, uint32_t mask) {
  while (busy(word, mask)) {
    u.ring.flush();
    if (!try_take(u, kReaping)) return;
    deliver(u);
    const bool stay = busy(word, mask) && u.ring.in_flight();
    if (stay) u.ring.freeze();
    give_up(u, kReaping);
    if (!stay) return;
    count(u.reaps);
    u.ring.wait_completion(kReaperNap);
    u.ring.unfreeze();
  }
}

void sleep_listed(Uring& u, std::atomic<uint32_t>& word, uint32_t mask) {
  const int place = u.sleepers.add(word);
  // Acquire: if the fill is over already, its memory is what we return to.
  const uint32_t seen =
      word.fetch_or(Folio::kWaiters, std::memory_order_acquire) |
      Folio::kWaiters;
  if ((seen & Folio::kKick) != 0) {
    word.fetch_and(~Folio::kKick, std::memory_order_relaxed);
  } else if ((seen & mask) != 0 && !orphaned(u)) {
    count(place < 0 ? u.overflow : u.sleeps);
    const uint64_t ns = place < 0 ? kUnlistedSleep : u.sleep_ns;
    if (!sleep_on(word, seen, ns) && place >= 0 &&
        (orphaned(u) || !busy(word, mask))) {
      count(u.rescues);
    }
  }
  u.sleepers.remove(place);
}

void wait(Backend& self, std::atomic<uint32_t>& word, uint32_t mask) {
  Uring& u = of(self);
  if (!busy(word, mask) || poll_for(u, word, mask)) return;
  while (busy(word, mask)) {
    if (try_take(u, kRole)) {
      reap_until(u, word, mask);
      give_up(u, kRole);
    }
    if (busy(word, mask)) sleep_listed(u, word, mask);
  }
  hand_over(u);
}

int attach(Backend& self, int fd) { return of(self).ring.attach(fd); }
void detach(Backend& self, int slot) { of(self).ring.detach(slot); }
int ring_fd(Backend& self) { return of(self).ring.fd(); }
bool move_ring_fd(Backend& self) { return of(self).ring.move_fd(); }
bool lost(Backend& self) { return of(self).ring.lost(); }

// A device that takes longer than this is not waited for.
constexpr uint64_t kQuiesceNs = 100'000'000;

void quiesce(Backend& self) {
  Uring& u = of(self);
  const uint64_t end = sys::monotonic_ns() + kQuiesceNs;
  u.ring.flush();
  while (!u.ring.settled() && sys::monotonic_ns() < end) nap(50000);
  poll(u);
}

void destroy(Backend& self) {
  Uring& u = of(self);
  u.ring.teardown();
  sys::invoke(SYS_munmap, &u, sizeof(Uring));
}

}  // namespace

Expected<Backend*> make_uring(const UringOptions& options) {
  const long mapped =
      sys::invoke(SYS_mmap, 0L, sizeof(Uring), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
  if (sys::failed(mapped)) {
    return tl::unexpected(Errno(static_cast<int>(-mapped)));
  }
  Uring* u = new (reinterpret_cast<void*>(mapped)) Uring;
  static_cast<Backend&>(*u) = {
      .name = "uring",
      .submit = submit,
      .wait = wait,
      .poll = poll,
      .attach = attach,
      .detach = detach,
      .ring_fd = ring_fd,
      .move_ring_fd = move_ring_fd,
      .lost = lost,
      .quiesce = quiesce,
      .destroy = destroy,
  };
  u->sleep_ns = options.sleep_ns;
  if (options.poll_us > 0) {
    u->poll_ns = static_cast<uint64_t>(options.poll_us) * 1000;
  }
  const int err = u->ring.setup(options);
  if (err == 0) return u;
  sys::invoke(SYS_munmap, u, sizeof(Uring));
  return tl::unexpected(Errno(-err));
}

UringStats uring_stats(Backend& backend) {
  Uring& u = of(backend);
  constexpr auto kRelaxed = std::memory_order_relaxed;
  return {u.polls.load(kRelaxed),   u.polled.load(kRelaxed),
          u.reaps.load(kRelaxed),   u.sleeps.load(kRelaxed),
          u.kicks.load(kRelaxed),   u.overflow.load(kRelaxed),
          u.rescues.load(kRelaxed), u.retried.load(kRelaxed)};
}

}  // namespace racache
