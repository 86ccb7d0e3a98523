// SPDX-License-Identifier: MIT
// What has to happen before a process is made or replaced: positions that live
// in user space go to the kernel, where the other process will find them.
#pragma once

#include <cstdint>

namespace racache::preload {

// Before a fork by whatever way: the child gets copies of all descriptors.
// engine::after_fork() follows in the parent.
void before_fork();

// Before clone(2) with these flags. A thread takes nothing away; a vfork-like
// child shares our memory, and with it the positions, until it executes.
void before_clone_flags(uint64_t flags);

// Whether libc knows of no thread but the caller's.
[[nodiscard]] bool single_threaded();

// unshare(2) with these flags, or close_range(2) with CLOSE_RANGE_UNSHARE: the
// flags to call it with. A thread that gets numbers of its own is lost to our
// table. Where nobody shares the numbers there is nothing to unshare, and the
// kernel must not see that its own workers, who serve our ring, do: it would
// make a new table, and the record locks would stay with the old one.
[[nodiscard]] uint64_t before_unshare(uint64_t flags);
[[nodiscard]] unsigned before_unsharing_range(unsigned flags);

// Before setns(2): into a user or time namespace goes a process with one thread
// only.
void before_setns(int fd, int type);

// From the constructor: registers before_fork, so that forks inside libc
// (daemon, forkpty) are seen too.
void install_fork_handler();

}  // namespace racache::preload
