// SPDX-License-Identifier: MIT
// What calls on descriptor numbers have to do besides the call, whichever way
// they come: by their names (fd.cc) or by syscall(2) (syscall.cc).
//
// The engine's ring occupies one high number of the application's table. It
// behaves as a closed one: EBADF, ranges leave it out, and whoever duplicates
// onto it gets it, because the ring moves away first.
#pragma once

namespace racache::preload {

[[nodiscard]] bool is_ring(int fd);
// Sets errno to EBADF; -1.
int closed_number();

// Around dup2 and dup3 of different numbers: before the call.
void before_replacing(int from, int to);
// After any call that duplicates; a negative `to` is a call that failed.
void after_duplicating(int from, int to);

// Before fcntl(2), but for F_SETLEASE: locks at the position need it in the
// kernel, and O_DIRECT makes the whole description the kernel's.
void before_fcntl(int fd, int command, long argument);
// Whether it returns a new number.
[[nodiscard]] bool duplicates(int command);

}  // namespace racache::preload
