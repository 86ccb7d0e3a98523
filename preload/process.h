// SPDX-License-Identifier: MIT
// What has to happen before a process is made or replaced: positions that live
// in user space go to the kernel, where the other process will find them.
#pragma once

#include <cstdint>

namespace racache::preload {

// Before a fork by whatever way: the child gets copies of all descriptors.
void before_fork();

// Before clone(2) with these flags. A thread takes nothing away; a vfork-like
// child shares our memory, and with it the positions, until it executes.
void before_clone_flags(uint64_t flags);

// Before unshare(2): with numbers of its own, this thread is lost to our table.
void before_unshare(uint64_t flags);

// From the constructor: registers before_fork, so that forks inside libc
// (daemon, forkpty) are seen too.
void install_fork_handler();

}  // namespace racache::preload
