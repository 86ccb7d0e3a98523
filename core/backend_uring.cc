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

#include "core/epoch.h"
#include "core/poll_policy.h"
#include "core/uring_ring.h"
#include "core/wait_list.h"

namespace racache {
namespace {

constexpr uint32_t kReaping = 1;
constexpr uint32_t kRole = 2;
constexpr unsigned kBatch = 16;
constexpr uint64_t kUnlistedSleep = 1000000;  // ns; nobody can kick us
constexpr uint64_t kFirstNap = 200000;        // ns; then prod the submitters
constexpr uint64_t kProdEvery = 30000;        // ns; while spinning

struct Uring : Backend {
  Ring ring;
  SleeperList sleepers;
  std::atomic<uint32_t> state{0};
  PollPolicy policy;
  // Threads inside wait(). Relaxed: the policy's estimate.
  std::atomic<uint32_t> waiters{0};
  // When someone last began to submit: the reader's way into the kernel is part
  // of what the policy compares, as waking a sleeping core is paid for there.
  // Relaxed: an estimate.
  std::atomic<uint64_t> submit_ns{0};
  uint64_t sleep_ns = 0;
  // Counters: relaxed, they order nothing.
  std::atomic<uint64_t> polls{0}, polled{0}, reaps{0}, sleeps{0}, kicks{0},
      overflow{0}, rescues{0}, retried{0}, lost_core{0};
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

// Whoever hands entries to the kernel, whosoever they are, will be interrupted.
void flush(Uring& u) {
  if (u.ring.pending() == 0) return;
  if (ThreadSlot* slot = epoch::self()) slot->submitted = true;
  u.ring.flush();
}

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
  u.submit_ns.store(sys::monotonic_ns(), std::memory_order_relaxed);
  unsigned taken = 0;
  while (taken < n) {
    unsigned got = u.ring.place(ops + taken, n - taken);
    if (got == 0) {
      // Full: make room, or leave the rest to the caller.
      if (u.ring.has_task_work()) u.ring.run_task_work();
      poll(u);
      got = u.ring.place(ops + taken, n - taken);
    }
    if (got == 0) break;
    taken += got;
    flush(u);
  }
  hand_over(u);
  return taken;
}

// One look at what has completed, whoever submitted it.
void look(Uring& u, uint64_t now, uint64_t* prod_at) {
  if (u.ring.completed() == 0 && u.ring.has_task_work()) {
    u.ring.run_task_work();
    if (now >= *prod_at) {  // it is another thread's, and that one computes
      u.ring.prod_submitters();
      *prod_at = now + kProdEvery;
    }
  }
  poll(u);
}

// True when the word is done.
bool spin(Uring& u, std::atomic<uint32_t>& word, uint32_t mask, uint64_t now,
          uint64_t ns) {
  constexpr int kLooksPerClock = 8;
  const uint64_t end = now + ns;
  uint64_t prod_at = now + kProdEvery;
  while (now < end) {
    for (int i = 0; i < kLooksPerClock; ++i) {
      look(u, now, &prod_at);
      if (!busy(word, mask)) return true;
      relax();
    }
    const uint64_t last = now;
    now = sys::monotonic_ns();
    if (now - last > PollPolicy::kLostCoreNs) {
      u.policy.lost_core(now);
      count(u.lost_core);
      return false;
    }
  }
  return false;
}

// Each yield is a way through the kernel, for this thread's reads and, as they
// do the same, for those of the others.
bool yield(Uring& u, std::atomic<uint32_t>& word, uint32_t mask, uint64_t now,
           uint64_t ns) {
  for (const uint64_t end = now + ns; now < end; now = sys::monotonic_ns()) {
    sys::invoke(SYS_sched_yield);
    poll(u);
    if (!busy(word, mask)) return true;
  }
  return false;
}

// True when the word is done.
bool poll_for(Uring& u, std::atomic<uint32_t>& word, uint32_t mask,
              const PollPolicy::Choice& choice, uint64_t begin) {
  if (choice.way == PollPolicy::Way::kSleep) return false;
  count(u.polls);
  const bool done = choice.way == PollPolicy::Way::kSpin
                        ? spin(u, word, mask, begin, choice.ns)
                        : yield(u, word, mask, begin, choice.ns);
  if (done) count(u.polled);
  if (ThreadSlot* slot = epoch::self()) {
    slot->counters.polled_ns += sys::monotonic_ns() - begin;
  }
  return done;
}

// Holding kRole. Returns when the word is done, when nothing is in flight, or
// when someone else is delivering: then our completion may be in that thread's
// hands, and no longer wake us here.
void reap_until(Uring& u, std::atomic<uint32_t>& word, uint32_t mask) {
  for (uint64_t ns = kFirstNap; busy(word, mask);) {
    flush(u);
    if (!try_take(u, kReaping)) return;
    deliver(u);
    const bool stay = busy(word, mask) && u.ring.in_flight();
    if (stay) u.ring.freeze();
    give_up(u, kReaping);
    if (!stay) return;
    count(u.reaps);
    const bool came = u.ring.wait_completion(ns);
    u.ring.unfreeze();
    if (!came) u.ring.prod_submitters();
    ns = kReaperNap;
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

void sleep_until(Uring& u, std::atomic<uint32_t>& word, uint32_t mask) {
  while (busy(word, mask)) {
    if (try_take(u, kRole)) {
      reap_until(u, word, mask);
      give_up(u, kRole);
    }
    if (busy(word, mask)) sleep_listed(u, word, mask);
  }
  hand_over(u);
}

// Where the time of a wait that begins at `now` is counted from: the submission
// just before, if there was one.
uint64_t counted_from(const Uring& u, uint64_t now) {
  constexpr uint64_t kJustBefore = 50'000;
  const uint64_t submitted = u.submit_ns.load(std::memory_order_relaxed);
  return now - submitted < kJustBefore ? submitted : now;
}

void wait(Backend& self, std::atomic<uint32_t>& word, uint32_t mask) {
  Uring& u = of(self);
  if (busy(word, mask)) poll(u);
  const uint32_t seen = word.load(std::memory_order_acquire);
  if ((seen & mask) == 0) return;
  const uint64_t begin = sys::monotonic_ns();
  const uint64_t from = counted_from(u, begin);
  const unsigned waiters =
      u.waiters.fetch_add(1, std::memory_order_relaxed) + 1;
  const PollPolicy::Choice choice =
      u.policy.choose(Folio::order_of(seen), waiters, begin);
  if (!poll_for(u, word, mask, choice, begin)) sleep_until(u, word, mask);
  u.waiters.fetch_sub(1, std::memory_order_relaxed);
  u.policy.learn(choice, sys::monotonic_ns() - from);
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
  ThreadSlot* slot = epoch::self();
  if (slot != nullptr && !slot->submitted) return;
  const uint64_t end = sys::monotonic_ns() + kQuiesceNs;
  u.ring.flush();
  // Behind it: what another thread placed meanwhile, this one may have handed
  // over.
  const uint32_t group = u.ring.group();
  if (slot != nullptr) slot->submitted = false;  // what done() submits counts
  poll(u);
  while (u.ring.group() - group < 2) {
    const uint32_t before = u.ring.group();
    u.ring.next_group();
    if (u.ring.group() != before) continue;
    if (sys::monotonic_ns() >= end) {
      if (slot != nullptr) slot->submitted = true;
      return;
    }
    nap(50000);
    u.ring.prod_submitters();
    poll(u);
  }
}

void close(Backend& self) { of(self).ring.close(); }

void destroy(Backend& self) {
  Uring& u = of(self);
  u.ring.teardown();
  sys::invoke(SYS_munmap, &u, sizeof(Uring));
}

unsigned usable_cores() {
  uint64_t mask[16] = {};  // 1024 CPUs
  const long bytes = sys::invoke(SYS_sched_getaffinity, 0, sizeof mask, mask);
  if (sys::failed(bytes)) return 2;  // more CPUs than that
  unsigned cores = 0;
  for (const uint64_t word : mask) {
    cores += static_cast<unsigned>(__builtin_popcountll(word));
  }
  return cores;
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
      .close = close,
      .destroy = destroy,
  };
  u->sleep_ns = options.sleep_ns;
  u->policy.init(options.poll_us, usable_cores());
  const int err = u->ring.setup(options);
  if (err == 0) return u;
  sys::invoke(SYS_munmap, u, sizeof(Uring));
  return tl::unexpected(Errno(-err));
}

UringStats uring_stats(Backend& backend) {
  Uring& u = of(backend);
  return {u.polls.load(kRelaxed),    u.polled.load(kRelaxed),
          u.reaps.load(kRelaxed),    u.sleeps.load(kRelaxed),
          u.kicks.load(kRelaxed),    u.overflow.load(kRelaxed),
          u.rescues.load(kRelaxed),  u.retried.load(kRelaxed),
          u.lost_core.load(kRelaxed)};
}

}  // namespace racache
