// SPDX-License-Identifier: MIT
#include "core/service.h"

#include <linux/close_range.h>
#include <cerrno>
#include <csignal>

#include "core/eligible.h"
#include "core/engine.h"
#include "core/lease.h"
#include "core/lease_watch.h"
#include "core/thread.h"

namespace racache {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kByClockNs = 2'000'000;

uint64_t signal_bit(int signal) { return uint64_t{1} << (signal - 1); }

// Everything but the ring goes: from here on the numbers are ours alone, and
// the application's pipes, sockets and files are not kept open by us.
void unshare_descriptors(int ring) {
  constexpr unsigned kLast = ~0u;
  if (ring < 0) {
    sys::invoke(SYS_close_range, 0, kLast, CLOSE_RANGE_UNSHARE);
    return;
  }
  sys::invoke(SYS_close_range, ring + 1, kLast, CLOSE_RANGE_UNSHARE);
  if (ring > 0) sys::invoke(SYS_close_range, 0, ring - 1, 0);
}

}  // namespace

int Service::start(Engine& engine) {
  prepare(engine);
  if (!table_.init(engine)) return -ENOMEM;
  lease_watch::begin();
  const int tid = start_thread("racache", main, this);
  if (tid < 0) return tid;
  tid_.store(tid, std::memory_order_relaxed);  // as it does itself
  return 0;
}

void Service::wait_until_complete() {
  const timespec limit = sys::to_timespec(1'000'000);
  while (complete_.load(std::memory_order_acquire) == 0) {
    wake();
    sys::futex_wait(&complete_, 0, &limit);
  }
}

void Service::main(void* argument) { static_cast<Service*>(argument)->run(); }

void Service::run() {
  tid_.store(sys::gettid(), std::memory_order_relaxed);
  Backend& backend = *engine_->backend;
  unshare_descriptors(backend.ring_fd(backend));
  if (ThreadSlot* slot = epoch::self()) slot->private_table = true;
  next_census_ns_ = sys::monotonic_ns() + kSecondNs;
  break_time_ns_ = lease::break_time_ns();
  engine::in_private_table(*engine_);
  while (!stop_.load(std::memory_order_acquire)) {
    wait_for_work();
    do_task();
    if (give_up_.exchange(false, std::memory_order_acquire)) {
      table_.for_each_leased([this](File& file) { give_up(file); });
    }
    answer_requests();
    // Nobody else may be left to notice what the device has finished.
    backend.poll(backend);
    const uint64_t now = sys::monotonic_ns();
    if (now >= next_census_ns_) break_time_ns_ = lease::break_time_ns();
    look_after_files(now);
    engine_->evictor.sweep(*engine_);
    rounds_.fetch_add(1, std::memory_order_release);
    sys::futex_wake(&rounds_, sys::kWakeAll);
    become_complete();
    if (program_is_gone(now)) {
      engine::end_with_program(*engine_);
      sys::invoke(SYS_exit, exit_status_);
    }
  }
  finish();
}

// Once, when who started us has been answered.
void Service::become_complete() {
  if (complete_.load(std::memory_order_relaxed) != 0) return;
  engine::start_helpers(*engine_);
  complete_.store(1, std::memory_order_release);
  sys::futex_wake(&complete_, sys::kWakeAll);
}

// One wake-up is queued at a time, so that breaks never stand behind many. A
// full queue (RLIMIT_SIGPENDING) refuses: then the thread looks by the clock.
void Service::wake() {
  wakers_.fetch_add(1, std::memory_order_seq_cst);
  if (!ended_.load(std::memory_order_seq_cst) &&
      !woken_.exchange(true, std::memory_order_acq_rel)) {
    const long sent =
        sys::invoke(SYS_tgkill, engine_->pid, tid(), lease::kSignal);
    if (sent == -EAGAIN) {
      by_clock_.store(true, std::memory_order_release);
      woken_.store(false, std::memory_order_release);
    }
  }
  wakers_.fetch_sub(1, std::memory_order_seq_cst);
}

uint64_t Service::time_to_wait() const {
  if (by_clock_.load(std::memory_order_acquire)) return kByClockNs;
  const uint64_t now = sys::monotonic_ns();
  const uint64_t most = break_time_ns_ / 8;
  uint64_t next = now + (most < kSecondNs ? most : kSecondNs);
  if (next_look_ns_ != 0 && next_look_ns_ < next) next = next_look_ns_;
  if (next_census_ns_ != 0 && next_census_ns_ < next) next = next_census_ns_;
  return next > now ? next - now : 0;
}

// Takes all signals that are queued; a thread-directed signal that comes early
// stays pending. SIGIO, which is what the kernel sends when it cannot queue,
// is not waited for: this thread would then be a taker of the program's own.
// It is only looked at, once a second at the latest.
void Service::wait_for_work() {
  take_signal(time_to_wait());
  constexpr int kMost = 256;
  uint64_t look_ns = 0;
  int taken = 0;
  do {
    look_ns = sys::coarse_ns();
  } while (take_signal(0) && ++taken < kMost);
  woken_.store(false, std::memory_order_release);
  uint64_t pending = 0;
  sys::invoke(SYS_rt_sigpending, &pending, sizeof pending);
  if ((pending & signal_bit(SIGIO)) != 0) scan_leases();
  if (taken < kMost) lease_watch::looked(look_ns, break_time_ns_);
}

// False: there was none.
bool Service::take_signal(uint64_t wait_ns) {
  const uint64_t set = signal_bit(lease::kSignal);
  const timespec timeout = sys::to_timespec(wait_ns);
  siginfo_t info{};
  const long signal =
      sys::invoke(SYS_rt_sigtimedwait, &set, &info, &timeout, sizeof set);
  if (signal != lease::kSignal) return false;
  if (info.si_code > 0) {
    if (File* file = table_.find_by_fd(info.si_fd)) break_lease(*file);
  }
  return true;
}

// State first, lease second: a read that begins after the writer's open went
// on finds the file broken. Folios go later; nothing waits for that.
void Service::break_lease(File& file) {
  if (file.direct_fd < 0 || !lease::breaking(file.direct_fd)) {
    return;  // a late signal of a number that has been used again
  }
  give_up(file);
  engine::count_refusal(Reason::kBroken);
  if (Counters* c = epoch::counters()) ++c->lease_breaks;
}

// A file that could not be buried at once may have been left watched.
void Service::look_after_files(uint64_t now) {
  constexpr uint64_t kSoonNs = 2'000'000;
  File* reported = reported_.exchange(nullptr, std::memory_order_acquire);
  const uint64_t when = table_.look_after_reported(reported, now);
  if (when != 0 && (next_look_ns_ == 0 || when < next_look_ns_)) {
    next_look_ns_ = when;
  }
  if (next_look_ns_ != 0 && now >= next_look_ns_) {
    next_look_ns_ = table_.look_after(now);
  }
  if (next_look_ns_ == 0 && table_.watching()) next_look_ns_ = now + kSoonNs;
}

void Service::give_up(File& file) {
  table_.condemn(file);
  next_look_ns_ = 1;  // bury it in this round
}

void Service::scan_leases() {
  table_.for_each_leased([&](File& file) {
    if (!file.trusted) break_lease(file);
  });
}

// A thread that has not been heard of for so long is not waited for.
bool Service::answers() {
  constexpr uint64_t kPatienceNs = 50'000'000;
  return lease_watch::current() || !lease_watch::begun() || settle(kPatienceNs);
}

void Service::adopt(AdoptRequest& request) {
  if (!answers()) {
    request.file = nullptr;
    request.reason = Reason::kUnwatched;
    return;
  }
  request.done.store(0, std::memory_order_relaxed);
  AdoptRequest* head = requests_.load(std::memory_order_relaxed);
  do {
    if (head == closed()) {
      request.file = nullptr;
      request.reason = Reason::kNoEngine;
      return;
    }
    request.next = head;
  } while (!requests_.compare_exchange_weak(head, &request,
                                            std::memory_order_release));
  wake();
  while (request.done.load(std::memory_order_acquire) == 0) {
    sys::futex_wait(&request.done, 0);
  }
}

void Service::answer_requests() {
  AdoptRequest* request =
      requests_.exchange(nullptr, std::memory_order_acquire);
  while (request != nullptr) {
    AdoptRequest* next = request->next;  // gone once answered
    answer(*request);
    request = next;
  }
}

void Service::answer(AdoptRequest& request) {
  request.file = nullptr;
  if (engine_->failed.load()) {
    request.reason = Reason::kRingLost;
  } else if (is_shunned(request.device, request.inode)) {
    request.reason = Reason::kOwnLease;
  } else {
    request.reason = open_file(request, &request.file);
  }
  request.done.store(1, std::memory_order_release);
  sys::futex_wake(&request.done, 1);
}

// A file that is leased already is simply shared: the asker holds it open, so
// device and inode cannot have been given to another file.
Reason Service::open_file(AdoptRequest& request, File** out) {
  const Reason reason = try_file(request, out);
  if (reason != Reason::kBudget || !table_.make_room()) return reason;
  return try_file(request, out);
}

Reason Service::try_file(AdoptRequest& request, File** out) {
  File* file = table_.find(request.device, request.inode);
  if (file != nullptr && file->readable()) {
    file->references.fetch_add(1, std::memory_order_acq_rel);
    file->idle_since_ns = 0;
    *out = file;
    return Reason::kNone;
  }
  const lease::Opened opened = lease::reopen_direct(
      request.tid, request.fd, request.device, request.inode);
  if (opened.fd < 0) return opened.reason;
  Reason reason = lease::take(opened.fd, tid());
  const bool trusted =
      reason != Reason::kNone && request.trust && reason != Reason::kBudget;
  if (trusted) reason = Reason::kNone;
  if (reason == Reason::kNone) reason = lease_file(request, opened.fd, out);
  if (reason == Reason::kNone) (*out)->trusted = trusted;
  if (reason != Reason::kNone) sys::invoke(SYS_close, opened.fd);
  return reason;
}

// Under the lease: what is read now stays true until it is released.
Reason Service::lease_file(AdoptRequest& request, int fd, File** out) {
  lease::Facts facts;
  if (!lease::facts_of(fd, &facts)) return Reason::kReopen;
  if (facts.direct_align > kPageSize) return Reason::kNoDirect;
  if (facts.stamp.size == 0) return Reason::kSmall;
  if (pages_of(facts.stamp.size) > 0xffffffffu) return Reason::kHuge;
  File* file = table_.find(request.device, request.inode);
  if (file != nullptr && !table_.still_true(*file, facts.stamp)) {
    table_.condemn(*file);
    next_look_ns_ = 1;
    file = nullptr;
  }
  const bool fresh = file == nullptr;
  if (fresh) file = table_.allocate();
  if (file == nullptr) return Reason::kBudget;
  file->size = facts.stamp.size;
  // What is to be compared is compared by the general way.
  const Config& config = engine_->config;
  const bool plain = config.verify == 0 && config.single_lookup;
  file->plain_size = plain ? file->size : 0;
  file->pages = pages_of(facts.stamp.size);
  if (fresh) {
    file->device = request.device;
    file->inode = request.inode;
    file->waits.store(0, std::memory_order_relaxed);
    file->hits.store(0, std::memory_order_relaxed);
    file->device_bytes.store(0, std::memory_order_relaxed);
    if (!file->index.init(file->pages, engine_->metadata) &&
        !(table_.bury_dormant() &&
          file->index.init(file->pages, engine_->metadata))) {
      table_.free(*file);
      return Reason::kBudget;
    }
  }
  const Reason reason = set_up(request, fd, *file);
  if (reason != Reason::kNone) {
    if (fresh) {
      file->index.destroy();
      table_.free(*file);
    }
    return reason;
  }
  if (fresh) {
    table_.insert(*file);
  } else {
    table_.awake(*file);
  }
  file->state.store(File::State::kLeased, std::memory_order_release);
  *out = file;
  return Reason::kNone;
}

Reason Service::set_up(AdoptRequest& request, int fd, File& file) {
  Backend& backend = *engine_->backend;
  const int slot = backend.attach(backend, fd);
  if (slot < 0) return Reason::kBudget;
  file.direct_slot = slot;
  file.direct_fd = fd;
  file.buffered_slot = file.buffered_fd = -1;
  table_.set_fd(fd, file);
  const eligible::Device device =
      eligible::device_limits(engine_->config, request.device);
  file.ra_pages = device.ra_pages;
  file.io_pages = device.io_pages;
  file.idle_since_ns = 0;
  file.references.store(1, std::memory_order_relaxed);
  __builtin_memcpy(file.path, request.path, sizeof file.path);
  attach_buffered(request, file);
  if (Counters* c = epoch::counters()) ++c->adopted;
  return Reason::kNone;
}

// Only a file that the kernel has pages of needs the second descriptor.
void Service::attach_buffered(AdoptRequest& request, File& file) {
  file.check_page_cache.store(false, std::memory_order_relaxed);
  if (lease::cached_pages(file.direct_fd, 0, 0) <= 0) return;
  const int fd =
      lease::reopen_buffered(file.direct_fd, request.device, request.inode);
  if (fd < 0) return;
  Backend& backend = *engine_->backend;
  const int slot = backend.attach(backend, fd);
  if (slot < 0) {
    sys::invoke(SYS_close, fd);
    return;
  }
  file.buffered_fd = fd;
  file.buffered_slot = slot;
  file.check_page_cache.store(true, std::memory_order_relaxed);
}

bool Service::settle(uint64_t timeout_ns) {
  const uint64_t deadline = sys::monotonic_ns() + timeout_ns;
  // The round under way may have looked already: wait for the end of the next.
  const uint32_t goal = rounds_.load(std::memory_order_acquire) + 2;
  while (!ended_.load(std::memory_order_relaxed) &&
         static_cast<int32_t>(rounds_.load(std::memory_order_acquire) - goal) <
             0) {
    const uint32_t seen = rounds_.load(std::memory_order_acquire);
    wake();
    const timespec limit = sys::to_timespec(1'000'000);
    sys::futex_wait(&rounds_, seen, &limit);
    if (sys::monotonic_ns() > deadline) return false;
  }
  return true;
}

}  // namespace racache
