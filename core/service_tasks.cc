// SPDX-License-Identifier: MIT
// The service thread: what it is asked for beside adoptions, and its end.
#include "core/backend_threads.h"
#include "core/census.h"
#include "core/engine.h"
#include "core/lease.h"

namespace racache {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kSoonNs = 10'000'000;      // a thread is about to end
constexpr uint64_t kOrphansNs = 250'000'000;  // the first thread has ended

}  // namespace

void Service::released(File& file) {
  if (file.reported.exchange(true, std::memory_order_acq_rel)) return;
  File* head = reported_.load(std::memory_order_relaxed);
  do {
    file.next_reported = head;
  } while (
      !reported_.compare_exchange_weak(head, &file, std::memory_order_release));
  if (head == nullptr) wake();
}

// ---- Tasks ----

// The lock is held while the thread is waited for: it never takes it itself.
bool Service::perform(const Task& task) {
  LockGuard guard(task_lock_);
  task_result_.store(0, std::memory_order_relaxed);
  task_.store(&task, std::memory_order_seq_cst);
  wake();
  const timespec limit = sys::to_timespec(kSecondNs / 100);
  while (task_result_.load(std::memory_order_acquire) == 0) {
    if (ended_.load(std::memory_order_seq_cst)) return false;
    sys::futex_wait(&task_result_, 0, &limit);
  }
  return task_result_.load(std::memory_order_relaxed) == 2;
}

void Service::do_task() {
  const Task* task = task_.exchange(nullptr, std::memory_order_acquire);
  if (task == nullptr) return;
  const bool done = task->order != nullptr
                        ? obey(*task->order)
                        : shun_now(task->device, task->inode);
  task_result_.store(done ? 2 : 1, std::memory_order_release);
  sys::futex_wake(&task_result_, 1);
}

bool Service::follow(const Order& order) { return perform({&order, 0, 0}); }

// This thread starts the others, so nobody is left out. A break between the two
// steps may have been told to nobody.
bool Service::obey(const Order& order) {
  bool done = order.obey();
  table_.for_each_leased(
      [this](File& file) { lease::renew_owner(file.direct_fd, tid()); });
  scan_leases();
  if (!engine_->background.follow(order)) done = false;
  if (!engine_->live.follow(order)) done = false;
  if (engine_->with_threads && !threads_follow(*engine_->backend, order)) {
    done = false;
  }
  return done;
}

bool Service::shun(uint64_t device, uint64_t inode) {
  constexpr int kTries = 50;
  const timespec nap = sys::to_timespec(1'000'000);
  int i = 0;
  for (; i < kTries && !perform({nullptr, device, inode}); ++i) {
    sys::invoke(SYS_nanosleep, &nap, 0L);
  }
  return i != 0;
}

// Whether there was nothing to do any more.
bool Service::shun_now(uint64_t device, uint64_t inode) {
  const bool held = table_.holds(device, inode);
  if (!is_shunned(device, inode) && shunned_count_ <= kMostShunned) {
    if (shunned_count_ < kMostShunned) {
      shunned_[shunned_count_] = {device, inode};
    }
    ++shunned_count_;
  }
  if (File* file = table_.find(device, inode)) give_up(*file);
  next_look_ns_ = table_.look_after(sys::monotonic_ns());
  return !held;
}

bool Service::is_shunned(uint64_t device, uint64_t inode) const {
  if (shunned_count_ > kMostShunned) return true;
  for (unsigned i = 0; i < shunned_count_; ++i) {
    if (shunned_[i].device == device && shunned_[i].inode == inode) return true;
  }
  return false;
}

// ---- The end ----

void Service::give_up_all() {
  give_up_.store(true, std::memory_order_release);
  wake();
}

void Service::stop() {
  give_up_all();
  (void)settle(kSecondNs / 50);
  stop_.store(true, std::memory_order_release);
  wake();
  const timespec nap = sys::to_timespec(100'000);
  while (!ended_.load(std::memory_order_seq_cst)) {
    sys::invoke(SYS_nanosleep, &nap, 0L);
  }
  while (sys::invoke(SYS_tgkill, engine_->pid, tid(), 0) == 0) {
    sys::invoke(SYS_sched_yield);
  }
}

// The last acts of the thread: what has been asked is answered, what will be is
// refused, nobody sends it signals.
void Service::finish() {
  table_.for_each_leased([this](File& file) { give_up(file); });
  refuse_requests();
  do_task();
  ended_.store(true, std::memory_order_seq_cst);
  while (wakers_.load(std::memory_order_seq_cst) != 0) {
    sys::invoke(SYS_sched_yield);
  }
}

void Service::refuse_requests() {
  AdoptRequest* request =
      requests_.exchange(closed(), std::memory_order_acq_rel);
  while (request != nullptr) {
    AdoptRequest* next = request->next;
    request->file = nullptr;
    request->reason = Reason::kNoEngine;
    request->done.store(1, std::memory_order_release);
    sys::futex_wake(&request->done, 1);
    request = next;
  }
}

// Our threads end, and with them the process. Its status is that of the thread
// that ended last, or (older kernels) first.
bool Service::program_is_gone(uint64_t now) {
  const bool soon = census_soon_.exchange(false, std::memory_order_acquire);
  if (now < next_census_ns_ && !soon) return false;
  const census::Leader first = census::leader();
  next_census_ns_ = now + (soon          ? kSoonNs
                           : first.ended ? kOrphansNs
                                         : kSecondNs);
  if (!first.ended) return false;
  const census::Threads threads = census::program_threads(engine_);
  if (threads.count == 1) last_seen_ = threads.first;
  if (threads.count != 0) return false;
  exit_status_ = last_status(first.exit_status);
  return true;
}

// libc ends threads with 0, be it by pthread_exit(3).
int Service::last_status(int first_status) const {
  const uint64_t expected = expected_end_.load(std::memory_order_relaxed);
  const int thread = static_cast<int>(expected >> 8);
  if (last_seen_ == 0 || last_seen_ == thread) {
    return thread != 0 ? static_cast<int>(expected & 0xff) : first_status;
  }
  return last_seen_ == engine_->pid ? first_status : 0;
}

void Service::expect_end(int status) {
  expected_end_.store(static_cast<uint64_t>(sys::gettid()) << 8 |
                          static_cast<uint64_t>(status & 0xff),
                      std::memory_order_relaxed);
  census_soon_.store(true, std::memory_order_release);
  wake();
}

}  // namespace racache
