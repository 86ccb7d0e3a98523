// SPDX-License-Identifier: MIT
// Threads that libc does not know of.
//
// pthread_create allocates, and a hook must never allocate. These threads run
// on a stack and a thread control block of their own, share everything with
// the process but the working directory, block all signals, and must not call
// libc functions that use errno or other thread-local state. Sanitizer builds
// use pthread_create instead, because the sanitizers keep per-thread state of
// their own.
#pragma once

#include "core/base.h"

namespace racache {

using ThreadMain = void (*)(void* argument);

// Starts a detached thread named `name` (at most 15 bytes). Returns its thread
// id, or -errno (EAGAIN at a limit of processes, ENOMEM).
[[nodiscard]] int start_thread(const char* name, ThreadMain main,
                               void* argument);

}  // namespace racache
