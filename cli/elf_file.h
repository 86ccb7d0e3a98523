// SPDX-License-Identifier: MIT
// Whether the dynamic linker would preload a library into a program.
#pragma once

#include <string>

namespace racache::cli {

enum class Preload {
  kYes,
  kNotFound,      // no such program
  kNotRunnable,   // it is there, but cannot be executed
  kNotElf,        // neither ELF nor a script: left to the kernel
  kStatic,        // no PT_INTERP
  kOtherLibc,     // a dynamic linker that is not glibc's
  kOtherMachine,  // 32 bits, or another CPU's
  kPrivileged,    // setuid, setgid or file capabilities
};

struct Program {
  Preload preload;
  std::string path;    // as found along PATH; what will be executed
  std::string detail;  // the interpreter, "Go", "setuid": what gave it away
};

// Looks `name` up as execvp(3) does, follows "#!" to the interpreter, and
// reads ELF headers with every offset checked.
Program inspect(const std::string& name);

}  // namespace racache::cli
