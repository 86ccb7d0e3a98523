// SPDX-License-Identifier: MIT
#include "preload/sandbox.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/uio.h>

#include "core/cache.h"
#include "preload/fd_table.h"

namespace racache::preload {
namespace {

// For good, in children too: they inherit the filter. It may be the calling
// thread's only, but which threads may do what cannot be known.
void leave_alone() {
  if (!in_own_process()) return;
  fd_forget_everything();
  engine::shut_down();
}

// From memory that need not be there.
bool fetch(void* to, const void* from, size_t bytes) {
  const iovec here{to, bytes};
  const iovec there{const_cast<void*>(from), bytes};
  return sys::invoke(SYS_process_vm_readv, sys::getpid(), &here, 1, &there, 1,
                     0) == static_cast<long>(bytes);
}

// What is refused with an error we can live with, as where a container refuses
// it from the start; a signal, or what a tracer does, the program would get for
// what it has not done.
bool harmless(const sock_filter& instruction) {
  if (BPF_CLASS(instruction.code) != BPF_RET) return true;
  if (BPF_RVAL(instruction.code) != BPF_K) return false;
  const unsigned action = instruction.k & SECCOMP_RET_ACTION_FULL;
  return action == SECCOMP_RET_ERRNO || action == SECCOMP_RET_ALLOW ||
         action == SECCOMP_RET_LOG;
}

// Whether the filter may do more than refuse. One that cannot be read is none:
// that is how libraries ask whether this kernel has any.
bool dangerous(const void* pointer) {
  sock_fprog program;
  if (!fetch(&program, pointer, sizeof program)) return false;
  for (unsigned i = 0; i < program.len; ++i) {
    sock_filter instruction;
    if (!fetch(&instruction, program.filter + i, sizeof instruction)) {
      return false;
    }
    if (!harmless(instruction)) return true;
  }
  return false;
}

}  // namespace

void before_prctl(int option, long mode, long filter) {
  if (option != PR_SET_SECCOMP) return;
  const bool filtered = mode == SECCOMP_MODE_FILTER &&
                        dangerous(reinterpret_cast<const void*>(filter));
  if (mode == SECCOMP_MODE_STRICT || filtered) leave_alone();
}

void before_seccomp(unsigned operation, const void* filter) {
  const bool filtered =
      operation == SECCOMP_SET_MODE_FILTER && dangerous(filter);
  if (operation == SECCOMP_SET_MODE_STRICT || filtered) leave_alone();
}

}  // namespace racache::preload
