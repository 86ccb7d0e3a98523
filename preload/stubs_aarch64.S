// SPDX-License-Identifier: MIT
// vfork(2) and syscall(2) for aarch64: the twin of stubs_x86_64.S, which says
// why they are not C.
#include "preload/stubs.h"

        .text

        .globl  vfork
        .type   vfork, %function
        .p2align 4
vfork:
        .cfi_startproc
        hint    #34                     // bti c
        stp     x29, x30, [sp, #-16]!
        .cfi_adjust_cfa_offset 16
        .cfi_offset x29, -16
        .cfi_offset x30, -8
        bl      racache_before_vfork
        ldp     x29, x30, [sp], #16
        .cfi_adjust_cfa_offset -16
        .cfi_restore x29
        .cfi_restore x30
        adrp    x16, racache_real_vfork
        ldr     x16, [x16, :lo12:racache_real_vfork]
        br      x16
        .cfi_endproc
        .size   vfork, .-vfork

// vfork(2) without libc: clone(CLONE_VM | CLONE_VFORK | SIGCHLD) on the same
// stack; the return address is in a register all the time.
        .globl  racache_raw_vfork
        .hidden racache_raw_vfork
        .type   racache_raw_vfork, %function
        .p2align 4
racache_raw_vfork:
        .cfi_startproc
        hint    #34
        mov     x0, #0x4111
        mov     x1, #0
        mov     x2, #0
        mov     x3, #0
        mov     x4, #0
        mov     x8, #220
        svc     #0
        cmn     x0, #4095
        b.hs    .Lfailed
        ret
        .cfi_endproc
        .size   racache_raw_vfork, .-racache_raw_vfork

// long syscall(long number, ...): all seven in x0 to x6, as for a C function.
        .globl  syscall
        .type   syscall, %function
        .p2align 4
syscall:
        .cfi_startproc
        hint    #34
        cmp     x0, #RACACHE_ROUTES
        b.hs    .Lreal
        adrp    x16, racache_syscall_routes
        add     x16, x16, :lo12:racache_syscall_routes
        ldrb    w16, [x16, x0]
        cbz     w16, .Lreal
        cmp     w16, #RACACHE_ROUTE_BODY
        b.eq    racache_routed_syscall
// A call that makes a process: told, then made for real from here.
        stp     x29, x30, [sp, #-80]!
        .cfi_adjust_cfa_offset 80
        .cfi_offset x29, -80
        .cfi_offset x30, -72
        stp     x0, x1, [sp, #16]
        stp     x2, x3, [sp, #32]
        stp     x4, x5, [sp, #48]
        str     x6, [sp, #64]
        bl      racache_before_clone
        ldp     x0, x1, [sp, #16]
        ldp     x2, x3, [sp, #32]
        ldp     x4, x5, [sp, #48]
        ldr     x6, [sp, #64]
        ldp     x29, x30, [sp], #80
        .cfi_adjust_cfa_offset -80
        .cfi_restore x29
        .cfi_restore x30
.Lreal: adrp    x16, racache_real_syscall
        ldr     x16, [x16, :lo12:racache_real_syscall]
        br      x16
        .cfi_endproc
        .size   syscall, .-syscall

        .globl  racache_raw_syscall
        .hidden racache_raw_syscall
        .type   racache_raw_syscall, %function
        .p2align 4
racache_raw_syscall:
        .cfi_startproc
        hint    #34
        mov     x8, x0
        mov     x0, x1
        mov     x1, x2
        mov     x2, x3
        mov     x3, x4
        mov     x4, x5
        mov     x5, x6
        svc     #0
        cmn     x0, #4095
        b.hs    .Lfailed
        ret
.Lfailed:
        stp     x29, x30, [sp, #-32]!
        .cfi_adjust_cfa_offset 32
        .cfi_offset x29, -32
        .cfi_offset x30, -24
        neg     w0, w0
        str     w0, [sp, #16]
        bl      __errno_location
        ldr     w1, [sp, #16]
        str     w1, [x0]
        mov     x0, #-1
        ldp     x29, x30, [sp], #32
        .cfi_adjust_cfa_offset -32
        .cfi_restore x29
        .cfi_restore x30
        ret
        .cfi_endproc
        .size   racache_raw_syscall, .-racache_raw_syscall

        .section .note.GNU-stack, "", %progbits
