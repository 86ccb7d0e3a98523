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
void choose_copy() {}

#else

// The first and last instruction of the exact part that may fault, and where to
// go on.
extern "C" {
[[gnu::visibility("hidden")]] extern const char racache_copy_first[];
[[gnu::visibility("hidden")]] extern const char racache_copy_last[];
[[gnu::visibility("hidden")]] extern const char racache_copy_short[];
}

#if defined(__x86_64__)
// rep movsb: as fast as anything from 2 KiB on, and at a fault rcx says to the
// byte what is left. What it costs to start is more than the rest of a hit, so
// fewer bytes go by vectors, if the CPU has wide ones (choose_copy()). These
// leave the arguments alone: a fault there begins anew, byte by byte. The last
// vector overlaps the one before it.
asm(R"(
  .data
  .p2align 3
  .hidden racache_copy_small
  .globl racache_copy_small
racache_copy_small:
  .quad racache_copy_exact

  .text
  .p2align 6
  .globl racache_copy
  .hidden racache_copy
  .type racache_copy, @function
racache_copy:
  .cfi_startproc
  cmpq $2048, %rdx
  jae racache_copy_exact
  jmp *racache_copy_small(%rip)
racache_copy_again:
  vzeroupper
racache_copy_exact:
  movq %rdx, %rcx
racache_copy_first:
racache_copy_last:
  rep movsb
racache_copy_short:
  movq %rdx, %rax
  subq %rcx, %rax
  ret

  .p2align 5
racache_copy_wide_first:
racache_copy_avx2:
  movq %rdx, %rax
  cmpq $64, %rdx
  jb racache_copy_exact
  vmovdqu -32(%rsi,%rdx), %ymm2
  vmovdqu -64(%rsi,%rdx), %ymm3
  leaq -64(%rdi,%rdx), %r8
  movq %rdi, %rcx
  movq %rsi, %r9
1:
  vmovdqu (%r9), %ymm0
  vmovdqu 32(%r9), %ymm1
  vmovdqu %ymm0, (%rcx)
  vmovdqu %ymm1, 32(%rcx)
  addq $64, %r9
  addq $64, %rcx
  cmpq %r8, %rcx
  jb 1b
  vmovdqu %ymm3, (%r8)
  vmovdqu %ymm2, 32(%r8)
  vzeroupper
  ret

  .p2align 5
racache_copy_avx512:
  movq %rdx, %rax
  cmpq $64, %rdx
  jb racache_copy_exact
  vmovdqu64 -64(%rsi,%rdx), %zmm17
  leaq -64(%rdi,%rdx), %r8
  movq %rdi, %rcx
  movq %rsi, %r9
2:
  vmovdqu64 (%r9), %zmm16
  vmovdqu64 %zmm16, (%rcx)
  addq $64, %r9
  addq $64, %rcx
  cmpq %r8, %rcx
  jb 2b
  vmovdqu64 %zmm17, (%r8)
  ret
racache_copy_wide_last:
  .cfi_endproc
  .size racache_copy, .-racache_copy
  .irp name, first, last, short, again, wide_first, wide_last, exact, avx2, avx512
  .hidden racache_copy_\name
  .globl racache_copy_\name
  .endr
)");
extern "C" {
// Where fewer bytes go. An aligned pointer that changes from one right answer
// to another; it needs no ordering.
[[gnu::visibility("hidden")]] extern const char* racache_copy_small;
[[gnu::visibility("hidden")]] extern const char racache_copy_again[];
[[gnu::visibility("hidden")]] extern const char racache_copy_avx2[];
[[gnu::visibility("hidden")]] extern const char racache_copy_avx512[];
[[gnu::visibility("hidden")]] extern const char racache_copy_wide_first[];
[[gnu::visibility("hidden")]] extern const char racache_copy_wide_last[];
}
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

namespace {

uintptr_t address(const char* label) {
  return reinterpret_cast<uintptr_t>(label);
}

}  // namespace

#if defined(__x86_64__)

namespace {

struct Cpuid {
  uint32_t a, b, c, d;
};
Cpuid cpuid(uint32_t leaf) {
  Cpuid r;
  asm("cpuid" : "=a"(r.a), "=b"(r.b), "=c"(r.c), "=d"(r.d) : "a"(leaf), "c"(0));
  return r;
}

// Which vector registers the system keeps (XCR0).
uint32_t kept_registers() {
  uint32_t low, high;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

}  // namespace

// 512-bit registers only where `rep movsb` is quick for short copies, too:
// older CPUs slow down for them.
void choose_copy() {
  constexpr uint32_t kOsXsave = 1u << 27, kAvx2 = 1u << 5, kAvx512F = 1u << 16;
  constexpr uint32_t kShortRep = 1u << 4;
  constexpr uint32_t kYmm = 0x6, kZmm = 0xe6;
  if (cpuid(0).a < 7 || (cpuid(1).c & kOsXsave) == 0) return;
  const uint32_t kept = kept_registers();
  const Cpuid has = cpuid(7);
  if ((has.b & kAvx512F) != 0 && (has.d & kShortRep) != 0 &&
      (kept & kZmm) == kZmm) {
    racache_copy_small = racache_copy_avx512;
  } else if ((has.b & kAvx2) != 0 && (kept & kYmm) == kYmm) {
    racache_copy_small = racache_copy_avx2;
  }
}

// A fault in the exact part ends there; in the others it starts anew.
bool resume_copy(uintptr_t* instruction) {
  const uintptr_t at = *instruction;
  if (at == address(racache_copy_first)) {
    *instruction = address(racache_copy_short);
    return true;
  }
  if (at < address(racache_copy_wide_first) ||
      at >= address(racache_copy_wide_last)) {
    return false;
  }
  *instruction = address(racache_copy_again);
  return true;
}

#else

void choose_copy() {}

bool resume_copy(uintptr_t* instruction) {
  const uintptr_t at = *instruction;
  const uintptr_t last = address(racache_copy_last);
  if (at < address(racache_copy_first) || at > last) return false;
  *instruction = address(at != last ? racache_copy_narrow : racache_copy_short);
  return true;
}

#endif
#endif

}  // namespace racache
