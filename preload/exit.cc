// SPDX-License-Identifier: MIT
// exit, _exit, _Exit, quick_exit, and the return from main.
//
// exit() writes before the exit handlers run, because such handlers close
// standard error (coreutils do). A return from main cannot be seen before
// them; there the destructor below writes, unless a handler's fclose(stderr)
// did (stdio.cc). What handlers read later is not counted.
#include "preload/exit.h"

#include <cstdlib>

#include "core/cache.h"
#include "preload/fd_table.h"
#include "preload/real.h"

namespace racache::preload {

void finish_process() {
  if (engine::generation() == 0 || !in_own_process()) return;
  engine::write_statistics();
  engine::let_go();
}

namespace {

[[gnu::destructor]] void library_ends() { finish_process(); }

[[noreturn]] void end_now(int status) {
  for (;;) sys::invoke(SYS_exit_group, status);
}

}  // namespace

namespace hook {

// exit(3): handlers, then the end. Returning is not an option for any caller.
void exit(int status) {
  finish_process();
  real::exit(status);
  end_now(status);
}

// quick_exit(3): runs the at_quick_exit handlers and no destructors.
void quick_exit(int status) {
  finish_process();
  real::quick_exit(status);
  end_now(status);
}

// _exit(2): nothing runs, all threads end.
void _exit(int status) {
  finish_process();
  end_now(status);
}

}  // namespace hook

RACACHE_DEFINE_TWIN(_Exit, _exit)

}  // namespace racache::preload
