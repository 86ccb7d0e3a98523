// SPDX-License-Identifier: MIT
// The engine's life after its start: what the program does to itself, and the
// ends.
#include "core/backend_threads.h"
#include "core/census.h"
#include "core/engine.h"
#include "core/lease_watch.h"

namespace racache::engine {

bool settle_breaks(Patience patience) {
  Engine* engine = current();
  if (engine == nullptr) return false;
  SignalGuard signals;
  return engine->service.settle(static_cast<uint64_t>(patience) * 1'000'000);
}

bool leases_watched() { return lease_watch::current(); }

void let_go() {
  Engine* engine = current();
  if (engine == nullptr) return;
  SignalGuard signals;
  constexpr uint64_t kPatienceNs = 20'000'000;
  engine->service.give_up_all();
  (void)engine->service.settle(kPatienceNs);
}

// Reads under way in other threads find the files broken and the backend
// closed, and go on by the kernel; their memory stays.
void shut_down() {
  if (current() == nullptr) return;
  write_statistics();  // there is nobody to ask later
  SignalGuard signals;
  Engine* engine = detach();
  if (engine == nullptr) return;
  engine->service.wait_until_complete();
  engine->live.stop();
  engine->background.stop();
  engine->service.stop();
  engine->backend->close(*engine->backend);
}

// Called by the service thread, which ends when it returns.
void end_with_program(Engine& engine) {
  write_statistics();
  engine.live.stop();
  engine.background.stop();
  if (engine.with_threads) engine.backend->close(*engine.backend);
}

bool interruptible() {
  const Engine* engine = current();
  if (engine == nullptr || engine->ops.idle()) return false;
  const ThreadSlot* slot = epoch::self();
  return slot == nullptr || slot->submitted;
}

// A child of vfork has our memory, but no reads: those are its parent's, who
// cannot see to them now.
void quiesce() {
  Engine* engine = current();
  if (engine == nullptr || !interruptible()) return;
  if (sys::getpid() != engine->pid) return;
  SignalGuard signals;
  // This thread will do the like again.
  if (ThreadSlot* slot = epoch::self()) slot->relays = true;
  engine->backend->quiesce(*engine->backend);
}

void follow(const Order& order) {
  Engine* engine = current();
  if (engine == nullptr) return;
  bool done;
  {
    SignalGuard signals;
    done = engine->service.follow(order);
  }
  if (!done) shut_down();
}

bool shun(uint64_t device, uint64_t inode) {
  Engine* engine = current();
  if (engine == nullptr) return false;
  SignalGuard signals;
  return engine->service.shun(device, inode);
}

void expect_end(int status) {
  Engine* engine = current();
  if (engine == nullptr) return;
  SignalGuard signals;
  engine->service.expect_end(status);
}

bool only_thread() {
  Engine* engine = current();
  if (engine != nullptr) {
    SignalGuard signals;
    engine->service.wait_until_complete();
  }
  return census::program_threads(engine).count != 2;
}

bool is_ours(const Engine& engine, int tid) {
  return tid == engine.service.tid() || tid == engine.background.tid() ||
         tid == engine.live.tid() ||
         (engine.with_threads && threads_has_worker(*engine.backend, tid));
}

}  // namespace racache::engine
