// SPDX-License-Identifier: MIT
// SIGSEGV and SIGBUS: ours to catch when a copy meets a bad buffer, the
// program's in every other respect.
//
// Once a file is cached, the kernel has our handler for both signals, with the
// flags and mask of the program's own action; the program's action is kept
// here, is what sigaction() and signal() report, and is what happens to every
// fault that is not in racache_copy. A program that blocks SIGSEGV and passes a
// bad buffer is ended by the kernel, where read(2) would have said EFAULT.
#pragma once

namespace racache::preload::faults {

// Takes the signals over; once a process, at its first adoption. Cheap later.
void arm();
// A program started meanwhile inherits that a signal is ignored, as it does
// without us; a handler, as ours is one, it would not. Cheap where the program
// ignores neither.
class Inherited {
 public:
  Inherited() : changed_(let_ignore(true)) {}
  ~Inherited() {
    if (changed_) let_ignore(false);
  }
  Inherited(const Inherited&) = delete;
  Inherited& operator=(const Inherited&) = delete;

 private:
  static bool let_ignore(bool in_kernel);
  bool changed_;
};

// In a forked child: whoever held the lock stayed behind.
void forget_threads();

}  // namespace racache::preload::faults
