// SPDX-License-Identifier: MIT
#include "core/uring_ring.h"

#include <cerrno>

#include "core/backend_uring.h"
#include "core/epoch.h"
#include "core/wait_list.h"

namespace racache {
namespace {

// The queues' indices are words shared with the kernel.
unsigned load_acquire(unsigned* index) {
  return std::atomic_ref<unsigned>(*index).load(std::memory_order_acquire);
}
void store_release(unsigned* index, unsigned value) {
  std::atomic_ref<unsigned>(*index).store(value, std::memory_order_release);
}

bool transient(long err) {
  return err == -EINTR || err == -EAGAIN || err == -EBUSY || err == -ENOMEM ||
         err == -ETIME;
}
// EBADF: closed. EOPNOTSUPP, ENXIO: the number is another file's. EPERM,
// ENOSYS: a seccomp filter came after us. In no case do entries get in.
bool means_lost(long ret) { return sys::failed(ret) && !transient(ret); }

}  // namespace

unsigned Ring::pending() const {
  return load_acquire(ring_.sq.ktail) - load_acquire(ring_.sq.khead);
}

unsigned Ring::room() const {
  const unsigned sq = ring_.sq.ring_entries - pending();
  const unsigned under_way =
      placed_.load(std::memory_order_relaxed) - load_acquire(ring_.cq.khead);
  const unsigned cq = ring_.cq.ring_entries - under_way;
  return sq < cq ? sq : cq;
}

void Ring::fill(unsigned at, ReadOp& op) {
  io_uring_sqe* sqe = &ring_.sq.sqes[at & ring_.sq.ring_mask];
  const int slot = static_cast<int>(op.slot);
  if (op.iov_count == 1) {
    io_uring_prep_read(sqe, slot, op.iov->iov_base,
                       static_cast<unsigned>(op.iov->iov_len), op.offset);
  } else {
    io_uring_prep_readv(sqe, slot, op.iov, op.iov_count, op.offset);
  }
  io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
  io_uring_sqe_set_data(sqe, &op);
}

unsigned Ring::place(ReadOp* const* ops, unsigned count) {
  LockGuard guard(sq_lock_);
  if (lost()) return 0;
  const unsigned free = room();
  if (count > free) count = free;
  const unsigned tail = placed_.load(std::memory_order_relaxed);
  const uint32_t group = group_.load(std::memory_order_relaxed) & 1;
  under_way_[group].fetch_add(count, std::memory_order_relaxed);
  for (unsigned i = 0; i < count; ++i) {
    ops[i]->group = group;
    fill(tail + i, *ops[i]);
  }
  // placed_ first: a completion must never be seen before its submission.
  placed_.store(tail + count, std::memory_order_seq_cst);
  store_release(ring_.sq.ktail, tail + count);
  return count;
}

bool Ring::flush() {
  int patience = 16;
  for (unsigned n; (n = pending()) != 0 && !lost();) {
    const long ret = submit_pending(n);
    if (ret <= 0 && ret != -EINTR && --patience == 0) return false;
    if (ret == -EAGAIN || ret == -EBUSY) sys::invoke(SYS_sched_yield);
  }
  return true;
}

long Ring::submit_pending(unsigned count) {
  submitters_.fetch_add(1, std::memory_order_seq_cst);
  const long ret = lost() ? -EBADF : enter(count, 0, 0, nullptr, 0);
  if (means_lost(ret)) lost_.store(true, std::memory_order_seq_cst);
  if (submitters_.fetch_sub(1, std::memory_order_seq_cst) == 1 && lost()) {
    abandon();
  }
  return ret;
}

// Our number in the calling thread's table.
int Ring::own_fd() const {
  const ThreadSlot* slot = epoch::self();
  if (slot != nullptr && slot->private_table) return service_fd_;
  return fd_.load(std::memory_order_acquire);
}

// io_uring_enter on the number that is ours now: move_fd() may change it while
// a thread is on its way into the kernel.
long Ring::enter(unsigned submit, unsigned wait, unsigned flags,
                 const void* arg, size_t size) {
  for (;;) {
    const int fd = own_fd();
    const long ret =
        sys::invoke(SYS_io_uring_enter, fd, submit, wait, flags, arg, size);
    if (!means_lost(ret)) return ret;
    if (fd == own_fd()) return ret;
  }
}

bool Ring::wait_completion(uint64_t ns) {
  if (lost()) return nap(ns < 200000 ? ns : 200000), true;
  __kernel_timespec timeout = {0, static_cast<long long>(ns)};
  io_uring_getevents_arg arg = {};
  arg.ts = reinterpret_cast<uint64_t>(&timeout);
  const long ret = enter(0, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG,
                         &arg, sizeof arg);
  if (means_lost(ret)) lose();
  if (ret == -EAGAIN || ret == -EBUSY || ret == -ENOMEM) nap(50000);
  return ret != -ETIME;
}

bool Ring::has_task_work() const {
  return cooperative_ &&
         (load_acquire(ring_.sq.kflags) & IORING_SQ_TASKRUN) != 0;
}

void Ring::run_task_work() {
  if (!lost()) enter(0, 0, IORING_ENTER_GETEVENTS, nullptr, 0);
}

// The interrupt of a membarrier leads through the kernel. What it does not
// reach runs soon anyway: at the next tick, switch or system call.
void Ring::prod_submitters() {
  constexpr int kPrivateExpedited = 1 << 3;
  if (has_task_work()) {
    sys::invoke(SYS_membarrier, kPrivateExpedited, 0, 0);
  }
}

void Ring::lose() {
  lost_.store(true, std::memory_order_seq_cst);
  if (submitters_.load(std::memory_order_seq_cst) == 0) abandon();
}

// Takes the entries that the kernel never saw off the queue. From here on no
// one enters with entries to submit (submit_pending refuses), so the kernel
// never looks at the queue again.
ReadOp* Ring::take_back() {
  LockGuard guard(sq_lock_);
  ReadOp* list = nullptr;
  unsigned tail = placed_.load(std::memory_order_relaxed);
  const unsigned head = load_acquire(ring_.sq.khead);
  for (; tail != head; --tail) {
    const io_uring_sqe& sqe = ring_.sq.sqes[(tail - 1) & ring_.sq.ring_mask];
    ReadOp* op = reinterpret_cast<ReadOp*>(sqe.user_data);
    op->next = list;
    list = op;
    under_way_[op->group].fetch_sub(1, std::memory_order_release);
  }
  store_release(ring_.sq.ktail, tail);
  placed_.store(tail, std::memory_order_seq_cst);
  return list;
}

void Ring::abandon() {
  for (ReadOp* op = take_back(); op != nullptr;) {
    ReadOp* next = op->next;
    op->done(*op, -ECANCELED);
    op = next;
  }
}

unsigned Ring::completed() const {
  return load_acquire(ring_.cq.ktail) - popped_.load(std::memory_order_relaxed);
}

unsigned Ring::pop(Completion* out, unsigned room) {
  const unsigned head = popped_.load(std::memory_order_relaxed);
  unsigned n = completed();
  if (n > room) n = room;
  // The kernel lies between an op's submitter and us; reading placed_ makes
  // the order visible to the memory model as well.
  if (n == 0 || placed_.load(std::memory_order_seq_cst) == head) return 0;
  for (unsigned i = 0; i < n; ++i) {
    const io_uring_cqe& cqe = ring_.cq.cqes[(head + i) & ring_.cq.ring_mask];
    out[i] = {reinterpret_cast<ReadOp*>(cqe.user_data), cqe.res};
    under_way_[out[i].op->group].fetch_sub(1, std::memory_order_release);
  }
  popped_.store(head + n, std::memory_order_seq_cst);
  return n;
}

void Ring::publish() {
  if (frozen_.load(std::memory_order_acquire)) return;
  store_release(ring_.cq.khead, popped_.load(std::memory_order_relaxed));
}

void Ring::next_group() {
  LockGuard guard(sq_lock_);
  const uint32_t next = group_.load(std::memory_order_relaxed) + 1;
  if (under_way_[next & 1].load(std::memory_order_acquire) == 0) {
    group_.store(next, std::memory_order_release);
  }
}

}  // namespace racache
