// SPDX-License-Identifier: MIT
#include "core/background.h"

#include <cerrno>

#include "core/engine.h"
#include "core/fill.h"
#include "core/fill_batch.h"
#include "core/thread.h"

namespace racache {
namespace {

constexpr uint64_t kMostAhead = 32;            // blocks: 64 MiB
constexpr timespec kWhileReading{0, 500'000};  // between looks at the device

// Its descriptors are the service thread's.
void join_private_table() {
  if (ThreadSlot* slot = epoch::self()) slot->private_table = true;
}

}  // namespace

// Half as much ahead as is in use, so that a small reader costs little.
bool Background::wanted() const {
  const Arena& arena = engine_->arena;
  const uint64_t fresh = arena.fresh_blocks();
  if (fresh == 0) return false;
  const uint64_t used = arena.held_blocks();
  const uint64_t ahead = used / 2 < kMostAhead ? used / 2 : kMostAhead;
  return arena.prepared_blocks() < ahead;
}

void Background::start() {
  // asleep_ stays 0 without a thread, so that nobody nudges it.
  tid_ = start_thread("racache-back", main, this);
  if (tid_ < 0) return refuse();
  engine_->relay.open();
}

// Nobody is going to go on with hints, nor with those that came before now.
void Background::refuse() {
  hint_count_.store(kMaxHints, std::memory_order_relaxed);
  LockGuard guard(lock_);
  stop_.store(true, std::memory_order_relaxed);
  for (PendingHint& hint : hints_) {
    File* file = hint.file;
    hint.file = nullptr;
    if (file == nullptr) continue;
    if (file->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      engine_->service.released(*file);
    }
  }
}

void Background::main(void* argument) {
  static_cast<Background*>(argument)->run();
}

void Background::run() {
  join_private_table();
  while (!stop_.load(std::memory_order_acquire)) {
    orders_.obey();
    engine_->memory_watch.look(*engine_);
    fill_batch::submit_relayed(*engine_);
    const bool reading = pump_hints();
    if (wanted() && engine_->arena.prepare_block()) continue;
    sleep(reading);
  }
}

// Until roused, or until it is time to look at the device or at memory again.
void Background::sleep(bool reading) {
  const timespec* timeout = reading ? &kWhileReading : nullptr;
  if (!reading && MemoryWatch::wanted(*engine_)) {
    timeout = &engine_->memory_watch.pause();
  }
  asleep_.store(1, std::memory_order_seq_cst);
  const bool more_hints =
      !reading && hint_count_.load(std::memory_order_seq_cst) != 0;
  if (more_hints || stop_.load() || orders_.any() || !engine_->relay.empty()) {
    asleep_.store(0);
  }
  while (asleep_.load(std::memory_order_acquire) != 0) {
    const long ret = sys::futex_wait(&asleep_, 1, timeout);
    if (ret == -ETIMEDOUT) asleep_.store(0);
  }
}

void Background::rouse() {
  if (asleep_.exchange(0, std::memory_order_acq_rel) != 0) {
    sys::futex_wake(&asleep_, 1);
  }
}

bool Background::follow(const Order& order) {
  return tid_ <= 0 || orders_.give(order, [this] { rouse(); });
}

void Background::stop() {
  if (tid_ <= 0) return;
  stop_.store(true, std::memory_order_seq_cst);
  do {
    rouse();
    sys::invoke(SYS_sched_yield);
  } while (sys::invoke(SYS_tgkill, engine_->pid, tid_, 0) == 0);
  engine_->relay.close();
  fill_batch::submit_relayed(*engine_);
}

bool Background::relay(ReadOp* const* reads, unsigned count) {
  if (!engine_->relay.add(reads, count)) return false;
  rouse();
  return true;
}

bool Background::add_hint(File& file, PageIndex next, PageIndex end) {
  if (hint_count_.load(std::memory_order_relaxed) >= kMaxHints) return false;
  {
    LockGuard guard(lock_);
    if (stop_.load(std::memory_order_relaxed)) return false;
    PendingHint* free = nullptr;
    for (PendingHint& hint : hints_) {
      if (hint.file == nullptr) free = &hint;
    }
    if (free == nullptr) return false;
    file.references.fetch_add(1, std::memory_order_acq_rel);
    *free = {&file, next, end};
    hint_count_.fetch_add(1, std::memory_order_seq_cst);
  }
  rouse();
  return true;
}

// One turn of one hint; false when it is over.
bool Background::go_on(PendingHint& hint) {
  File& file = *hint.file;
  if (!file.readable()) return false;
  const PageIndex next = fill::force(file, hint.next, hint.end, file.direct_fd);
  // No progress though nothing is in flight: there is no memory for it.
  const bool stuck = next == hint.next && engine_->ops.busy() == 0;
  hint.next = next;
  return next < hint.end && !stuck;
}

bool Background::pump_hints() {
  if (hint_count_.load(std::memory_order_seq_cst) == 0) return false;
  Backend& backend = *engine_->backend;
  backend.poll(backend);
  for (PendingHint& hint : hints_) {
    File* file;
    {
      LockGuard guard(lock_);
      file = hint.file;
    }
    if (file == nullptr || go_on(hint)) continue;
    {
      LockGuard guard(lock_);
      hint.file = nullptr;
      hint_count_.fetch_sub(1, std::memory_order_seq_cst);
    }
    if (file->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      engine_->service.released(*file);
    }
  }
  return hint_count_.load(std::memory_order_relaxed) != 0;
}

}  // namespace racache
