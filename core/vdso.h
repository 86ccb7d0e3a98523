// SPDX-License-Identifier: MIT
// The kernel's own clock_gettime(2), which is no system call: found in the
// vDSO itself, because libc's name may lead to a library that tells the program
// another time (libfaketime), and ours has to be the kernel's.
#pragma once

#include <ctime>

namespace racache::vdso {

// Returns 0 or -errno, without touching errno. The bare system call until
// init(), and where there is no vDSO (valgrind).
using ClockGetTime = int (*)(clockid_t, timespec*);
#pragma GCC visibility push(hidden)
extern constinit ClockGetTime clock_gettime;
#pragma GCC visibility pop

// Once, before the process has other threads.
void init();

}  // namespace racache::vdso
