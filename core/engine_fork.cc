// SPDX-License-Identifier: MIT
// A fork by a signal handler that interrupted a hit. The child returns into it
// and needs what it reads from: this once, our memory is copied.
#include "core/engine.h"
#include "core/mapping.h"

namespace racache::engine {
namespace {

bool inside_section() {
  const ThreadSlot* slot = epoch::self();
  return slot != nullptr && slot->epoch.load(std::memory_order_relaxed) != 0;
}

// Under its lock, which a file's table goes under too.
void advise_file(File& file, int advice) {
  LockGuard guard(file.lock);
  if (file.state.load(std::memory_order_acquire) != File::State::kFree) {
    file.index.advise(advice);
  }
}

void advise(Engine& engine, int advice) {
  engine.arena.advise(advice);
  engine.metadata.advise(advice);
  const uint32_t used = engine.files_used.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < used; ++i) advise_file(engine.files[i], advice);
  mapping::advise(engine.files, sizeof(File) * kMaxFiles, advice);
  mapping::advise(&engine, sizeof(Engine), advice);
}

}  // namespace

void before_fork() {
  Engine* engine = current();
  if (engine == nullptr || !inside_section()) return;
  SignalGuard signals;
  LockGuard guard(engine->fork_lock);
  if (engine->forks++ == 0) advise(*engine, MADV_DOFORK);
}

void after_fork() {
  Engine* engine = current();
  if (engine == nullptr || !inside_section()) return;
  SignalGuard signals;
  LockGuard guard(engine->fork_lock);
  if (--engine->forks == 0) advise(*engine, MADV_DONTFORK);
}

}  // namespace racache::engine
