// SPDX-License-Identifier: MIT
// Copying into a buffer that may not be there.
//
// read(2) into a bad buffer returns EFAULT, or what fitted; a plain memcpy
// would end the process. So the bytes are copied by one instruction sequence
// whose address range is known: whoever handles SIGSEGV and SIGBUS asks
// resume_copy(), and the copy returns short instead. This costs the copy
// nothing. The alternatives cost a system call (process_vm_writev), or look
// (mincore) before a leap that another thread can spoil.
#pragma once

#include "core/base.h"

namespace racache {

// Copies n bytes; returns how many were copied before the first that could
// not be written. Without a signal handler that asks resume_copy(), a bad
// buffer ends the process.
extern "C" size_t racache_copy(void* to, const void* from, size_t n);

// A fault at *instruction: if it happened in racache_copy, *instruction is
// where the thread is to go on, and the answer is true.
[[nodiscard]] bool resume_copy(uintptr_t* instruction);

// Chooses the copy that suits this CPU; until then one that suits all is used.
void choose_copy();

}  // namespace racache
