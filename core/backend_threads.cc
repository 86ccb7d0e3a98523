// SPDX-License-Identifier: MIT
// A queue of ops under a lock, and workers that sleep on `ticket`.
//
// A slot is the descriptor itself. Completions run on the workers, so no
// waiter needs to reap and no application thread is ever interrupted by one.
#include "core/backend_threads.h"

#include <cerrno>
#include <new>

#include "core/lock.h"
#include "core/mapping.h"
#include "core/thread.h"
#include "core/wait_list.h"

namespace racache {
namespace {

constexpr unsigned kMostWorkers = 16;

struct Threads : Backend {
  Lock lock;  // the queue
  ReadOp* first = nullptr;
  ReadOp** last = &first;
  unsigned queued = 0;
  unsigned room = 0;
  unsigned wanted = 0;
  // Bumped for each op queued; the workers' futex. Release/acquire are the
  // lock's business: a worker that finds the queue empty has read the ticket
  // before it looked.
  std::atomic<uint32_t> ticket{0};
  std::atomic<uint32_t> workers{0};  // running; release at a worker's end
  std::atomic<bool> stop{false};
  bool closed = false;  // nothing more is taken; under the lock
  // An order to all workers: what, which one, how many have obeyed, and how.
  // `order` is published by `orders`, and `disobeyed` by `obeyed`.
  const Order* order = nullptr;
  std::atomic<uint32_t> orders{0};
  std::atomic<uint32_t> obeyed{0};
  std::atomic<bool> disobeyed{false};
  std::atomic<int> tids[kMostWorkers] = {};
};

Threads& of(Backend& self) { return static_cast<Threads&>(self); }

ReadOp* take(Threads& t) {
  LockGuard guard(t.lock);
  ReadOp* op = t.first;
  if (op == nullptr) return nullptr;
  t.first = op->next;
  if (t.first == nullptr) t.last = &t.first;
  --t.queued;
  return op;
}

long read_op(const ReadOp& op) {
  long ret;
  do {  // the offset in two halves: the upper one is ignored on 64 bit
    ret = sys::invoke(SYS_preadv, op.slot, op.iov, op.iov_count, op.offset, 0);
  } while (ret == -EINTR);
  return ret;
}

void obey(Threads& t, uint32_t& seen) {
  const uint32_t orders = t.orders.load(std::memory_order_acquire);
  if (orders == seen) return;
  seen = orders;
  if (!t.order->obey()) t.disobeyed.store(true, std::memory_order_relaxed);
  t.obeyed.fetch_add(1, std::memory_order_release);
}

// What is queued is read even if they are to stop: somebody waits for it.
void worker(void* argument) {
  Threads& t = *static_cast<Threads*>(argument);
  uint32_t seen = 0;  // all start before the first order
  for (;;) {
    const uint32_t ticket = t.ticket.load(std::memory_order_acquire);
    obey(t, seen);
    ReadOp* op = take(t);
    if (op == nullptr) {
      if (t.stop.load(std::memory_order_acquire)) break;
      sys::futex_wait(&t.ticket, ticket);
      continue;
    }
    op->done(*op, read_op(*op));
  }
  t.workers.fetch_sub(1, std::memory_order_release);
}

unsigned append(Threads& t, ReadOp* const* ops, unsigned n) {
  LockGuard guard(t.lock);
  const unsigned free = t.closed ? 0 : t.room - t.queued;
  if (n > free) n = free;
  for (unsigned i = 0; i < n; ++i) {
    ops[i]->next = nullptr;
    *t.last = ops[i];
    t.last = &ops[i]->next;
  }
  t.queued += n;
  return n;
}

unsigned submit(Backend& self, ReadOp* const* ops, unsigned n) {
  Threads& t = of(self);
  if (t.workers.load(std::memory_order_acquire) == 0) return 0;
  n = append(t, ops, n);
  if (n == 0) return 0;
  t.ticket.fetch_add(n, std::memory_order_release);
  sys::futex_wake(&t.ticket, static_cast<int>(n));
  return n;
}

void wait(Backend&, std::atomic<uint32_t>& word, uint32_t mask) {
  wait_without_reaper(word, mask);
}
void nothing(Backend&) {}
int attach(Backend&, int fd) { return fd; }
void detach(Backend&, int) {}
int ring_fd(Backend&) { return -1; }
bool move_ring_fd(Backend&) { return false; }
bool lost(Backend&) { return false; }

void close(Backend& self) {
  Threads& t = of(self);
  {
    LockGuard guard(t.lock);
    t.closed = true;
  }
  t.stop.store(true, std::memory_order_release);
  while (t.workers.load(std::memory_order_acquire) != 0) {
    t.ticket.fetch_add(1, std::memory_order_release);
    sys::futex_wake(&t.ticket, sys::kWakeAll);
    nap(50000);
  }
}

void destroy(Backend& self) {
  close(self);
  mapping::release(&self, sizeof(Threads));
}

}  // namespace

Expected<Backend*> make_threads(const ThreadsOptions& options) {
  void* memory = mapping::reserve(sizeof(Threads), MADV_DONTFORK);
  if (memory == nullptr) return tl::unexpected(Errno(ENOMEM));
  Threads* t = new (memory) Threads;
  static_cast<Backend&>(*t) = {
      .name = "threads",
      .submit = submit,
      .wait = wait,
      .poll = nothing,
      .attach = attach,
      .detach = detach,
      .ring_fd = ring_fd,
      .move_ring_fd = move_ring_fd,
      .lost = lost,
      .quiesce = nothing,
      .close = close,
      .destroy = destroy,
  };
  t->room = options.queue;
  t->wanted =
      options.workers < kMostWorkers ? options.workers : kMostWorkers;
  return t;
}

unsigned threads_start_workers(Backend& backend) {
  Threads& t = of(backend);
  for (unsigned i = 0; i < t.wanted; ++i) {
    // Counted before it runs, so that it can never count itself out first.
    t.workers.fetch_add(1, std::memory_order_acq_rel);
    const int tid = start_thread("racache-io", worker, &t);
    t.tids[i].store(tid, std::memory_order_relaxed);
    if (tid >= 0) continue;
    t.workers.fetch_sub(1, std::memory_order_acq_rel);
    break;
  }
  return t.workers.load(std::memory_order_acquire);
}

bool threads_follow(Backend& backend, const Order& order) {
  Threads& t = of(backend);
  const uint32_t all = t.workers.load(std::memory_order_acquire);
  t.order = &order;
  t.obeyed.store(0, std::memory_order_relaxed);
  t.orders.fetch_add(1, std::memory_order_release);
  while (t.obeyed.load(std::memory_order_acquire) < all) {
    t.ticket.fetch_add(1, std::memory_order_release);
    sys::futex_wake(&t.ticket, sys::kWakeAll);
    nap(20000);
  }
  return !t.disobeyed.load(std::memory_order_relaxed);
}

bool threads_has_worker(const Backend& backend, int tid) {
  const Threads& t = static_cast<const Threads&>(backend);
  for (const std::atomic<int>& worker : t.tids) {
    if (worker.load(std::memory_order_relaxed) == tid) return true;
  }
  return false;
}

}  // namespace racache
