// SPDX-License-Identifier: MIT
// Which threads of the process are the program's, by /proc/self/task: not ours,
// not the kernel's workers for io_uring, not ended.
#pragma once

#include "core/base.h"

namespace racache {

struct Engine;

namespace census {

struct Threads {
  int count;  // 0, 1, or 2 for more; -1 when /proc does not tell
  int first;  // its number, if there is one
};
// The program's threads. Without an engine all are.
[[nodiscard]] Threads program_threads(const Engine* engine);

struct Leader {
  bool ended;       // others may go on
  int exit_status;  // then
};
[[nodiscard]] Leader leader();

}  // namespace census
}  // namespace racache
