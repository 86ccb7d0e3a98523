// SPDX-License-Identifier: MIT
#include "core/copy.h"

#include <cstring>

namespace racache {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)

// The sanitizers are to see what is written.
extern "C" size_t racache_copy(void* to, const void* from, size_t n) {
  std::memcpy(to, from, n);
  return n;
}
bool resume_copy(uintptr_t*) { return false; }

#else

// The first and last instruction that may fault, and where to go on.
extern "C" {
[[gnu::visibility("hidden")]] extern const char racache_copy_first[];
[[gnu::visibility("hidden")]] extern const char racache_copy_last[];
[[gnu::visibility("hidden")]] extern const char racache_copy_short[];
}

#if defined(__x86_64__)
// rep movsb: as fast as anything from a few hundred bytes on, and at a fault
// rcx says to the byte what is left.
asm(R"(
  .text
  .p2align 4
  .globl racache_copy
  .hidden racache_copy
  .type racache_copy, @function
racache_copy:
  .cfi_startproc
  movq %rdx, %rcx
racache_copy_first:
racache_copy_last:
  rep movsb
racache_copy_short:
  movq %rdx, %rax
  subq %rcx, %rax
  ret
  .cfi_endproc
  .size racache_copy, .-racache_copy
  .hidden racache_copy_first, racache_copy_last, racache_copy_short
  .globl racache_copy_first, racache_copy_last, racache_copy_short
)");
#elif defined(__aarch64__)
// Sixteen bytes at a time, then one; x3 moves on only when a store is done. A
// fault in the wide part goes on in the narrow one, which finds the last byte.
asm(R"(
  .text
  .p2align 4
  .globl racache_copy
  .hidden racache_copy
  .type racache_copy, %function
racache_copy:
  .cfi_startproc
  mov x3, x0
  add x4, x0, x2
1:
  sub x5, x4, x3
  cmp x5, #16
  b.lo 2f
  ldp x6, x7, [x1]
racache_copy_first:
  stp x6, x7, [x3]
  add x1, x1, #16
  add x3, x3, #16
  b 1b
2:
racache_copy_narrow:
  cmp x3, x4
  b.eq racache_copy_short
  ldrb w6, [x1]
racache_copy_last:
  strb w6, [x3]
  add x1, x1, #1
  add x3, x3, #1
  b 2b
racache_copy_short:
  sub x0, x3, x0
  ret
  .cfi_endproc
  .size racache_copy, .-racache_copy
  .hidden racache_copy_first, racache_copy_last, racache_copy_short
  .globl racache_copy_first, racache_copy_last, racache_copy_short
  .hidden racache_copy_narrow
  .globl racache_copy_narrow
)");
extern "C" {
[[gnu::visibility("hidden")]] extern const char racache_copy_narrow[];
}
#endif

bool resume_copy(uintptr_t* instruction) {
  const uintptr_t at = *instruction;
  const uintptr_t last = reinterpret_cast<uintptr_t>(racache_copy_last);
  if (at < reinterpret_cast<uintptr_t>(racache_copy_first) || at > last) {
    return false;
  }
#if defined(__aarch64__)
  if (at != last) {
    *instruction = reinterpret_cast<uintptr_t>(racache_copy_narrow);
    return true;
  }
#endif
  *instruction = reinterpret_cast<uintptr_t>(racache_copy_short);
  return true;
}

#endif

}  // namespace racache
