// SPDX-License-Identifier: MIT
// vfork(2) and syscall(2) for x86-64. Both may return twice on one stack, or on
// another stack, so no frame of ours may lie below them: they do their part,
// put the stack and the argument registers back, and jump on.
#include "preload/stubs.h"

        .text

// pid_t vfork(void): positions first, then the real one. It has no arguments,
// so there is nothing to keep but the alignment of the stack.
        .globl  vfork
        .type   vfork, @function
        .p2align 4
vfork:
        .cfi_startproc
        endbr64
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 8
        call    racache_before_vfork
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        jmp     *racache_real_vfork(%rip)
        .cfi_endproc
        .size   vfork, .-vfork

// vfork(2) without libc. The child's calls overwrite the stack below its
// caller's frame, so the return address waits in a register.
        .globl  racache_raw_vfork
        .hidden racache_raw_vfork
        .type   racache_raw_vfork, @function
        .p2align 4
racache_raw_vfork:
        .cfi_startproc
        endbr64
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        .cfi_register rip, rdi
        movl    $58, %eax
        syscall
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        .cfi_offset rip, -8
        cmpq    $-4095, %rax
        jae     .Lfailed
        ret
        .cfi_endproc
        .size   racache_raw_vfork, .-racache_raw_vfork

// long syscall(long number, ...): number in rdi, arguments in rsi, rdx, rcx,
// r8, r9 and on the stack: exactly what a C function of seven longs gets. So
// routed calls are one jump away, and so is the real syscall().
        .globl  syscall
        .type   syscall, @function
        .p2align 4
syscall:
        .cfi_startproc
        endbr64
        cmpq    $RACACHE_ROUTES, %rdi
        jae     .Lreal
        leaq    racache_syscall_routes(%rip), %rax
        movzbl  (%rax,%rdi), %eax
        testl   %eax, %eax
        je      .Lreal
        cmpl    $RACACHE_ROUTE_BODY, %eax
        je      racache_routed_syscall
// A call that makes a process: told, then made for real from here.
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        pushq   %rdx
        .cfi_adjust_cfa_offset 8
        pushq   %rcx
        .cfi_adjust_cfa_offset 8
        pushq   %r8
        .cfi_adjust_cfa_offset 8
        pushq   %r9
        .cfi_adjust_cfa_offset 8
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 8
        call    racache_before_clone
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        popq    %r9
        .cfi_adjust_cfa_offset -8
        popq    %r8
        .cfi_adjust_cfa_offset -8
        popq    %rcx
        .cfi_adjust_cfa_offset -8
        popq    %rdx
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdi
        .cfi_adjust_cfa_offset -8
.Lreal: jmp     *racache_real_syscall(%rip)
        .cfi_endproc
        .size   syscall, .-syscall

// syscall() without libc, for the time before the real one is known and for
// calls that must not meet another preload library.
        .globl  racache_raw_syscall
        .hidden racache_raw_syscall
        .type   racache_raw_syscall, @function
        .p2align 4
racache_raw_syscall:
        .cfi_startproc
        endbr64
        movq    %rdi, %rax
        movq    %rsi, %rdi
        movq    %rdx, %rsi
        movq    %rcx, %rdx
        movq    %r8, %r10
        movq    %r9, %r8
        movq    8(%rsp), %r9
        syscall
        cmpq    $-4095, %rax
        jae     .Lfailed
        ret
.Lfailed:                               // also of racache_raw_vfork
        negl    %eax
        pushq   %rax
        .cfi_adjust_cfa_offset 8
        call    *__errno_location@GOTPCREL(%rip)
        popq    %rcx
        .cfi_adjust_cfa_offset -8
        movl    %ecx, (%rax)
        movq    $-1, %rax
        ret
        .cfi_endproc
        .size   racache_raw_syscall, .-racache_raw_syscall

        .section .note.GNU-stack, "", @progbits
