// SPDX-License-Identifier: MIT
// Our constructor. Other libraries' constructors may call hooks before it has
// run: those pass through by raw system calls, and what they open stays
// untracked. It touches no heap, starts no thread, opens nothing.
#include "preload/init.h"

#include <unistd.h>
#include <cerrno>

#include "core/cache.h"
#include "core/config.h"
#include "core/log.h"
#include "preload/fd_table.h"
#include "preload/process.h"
#include "preload/real.h"

namespace racache::preload {

constinit std::atomic<State> state_word{State::kCold};

void turn_off() { state_word.store(State::kOff, std::memory_order_release); }

namespace {

bool configure() {
  Config config;
  log::init(LogLevel::kWarn);
  load_config_without_size(config, environ);
  log::set_level(config.log);
  if (!config.enabled) return false;
  if (!program_wanted(config, program_invocation_short_name)) return false;
  engine::configure(config);
  return true;
}

[[gnu::constructor]] void start() {
  const int saved_errno = errno;
  real::resolve();
  const bool wanted = configure();
  if (wanted) {
    install_fork_handler();
    state_word.store(State::kReady, std::memory_order_release);
  } else {
    turn_off();
  }
  errno = saved_errno;
}

}  // namespace
}  // namespace racache::preload
