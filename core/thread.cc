// SPDX-License-Identifier: MIT
#include "core/thread.h"

#include <sched.h>
#include <sys/prctl.h>
#include <cerrno>

#include "core/lock.h"
#include "core/mapping.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#include <pthread.h>
#define RACACHE_LIBC_THREADS 1
#endif

extern "C" int __clone(int (*entry)(void*), void* stack, int flags,
                       void* argument, ...);

namespace racache {
namespace {

constexpr size_t kStackSize = 64 << 10;

// What the new thread needs, at the top of its own stack mapping.
struct Start {
  ThreadMain main;
  void* argument;
  char name[16];
  std::atomic<int> tid;
};

void run(const Start& start) {
  sys::invoke(SYS_prctl, PR_SET_NAME, start.name);
  start.main(start.argument);
}

void copy_name(char (&to)[16], const char* from) {
  size_t i = 0;
  for (; i + 1 < sizeof to && from[i] != 0; ++i) to[i] = from[i];
  to[i] = 0;
}

}  // namespace

#if defined(RACACHE_LIBC_THREADS)

int start_thread(const char* name, ThreadMain main, void* argument) {
  static Start start;  // the creator waits below, so one is enough
  static Lock lock;
  LockGuard guard(lock);
  SignalGuard signals;
  start.main = main;
  start.argument = argument;
  start.tid.store(0, std::memory_order_relaxed);
  copy_name(start.name, name);
  pthread_t thread;
  int err = pthread_create(
      &thread, nullptr,
      [](void*) -> void* {
        Start mine{start.main, start.argument, {}, {}};
        copy_name(mine.name, start.name);
        start.tid.store(sys::gettid(), std::memory_order_release);
        run(mine);
        return nullptr;
      },
      nullptr);
  if (err != 0) return -err;
  pthread_detach(thread);
  int tid;
  while ((tid = start.tid.load(std::memory_order_acquire)) == 0) sched_yield();
  return tid;
}

#else

namespace {

// The least that compiled code expects about the thread pointer: on x86-64 a
// pointer to itself (TLS addressing) and the stack-protector canary at 0x28.
// Our own initial-exec variables lie at a distance from it that depends on what
// the program and its libraries have; there they read as zero.
[[gnu::tls_model("initial-exec")]] constinit thread_local char landmark = 0;
constexpr size_t kSlack = 4096;  // our variables are fewer bytes than this

char* thread_pointer() {
  char* tp;
#if defined(__x86_64__)
  asm("movq %%fs:0, %0" : "=r"(tp));
#else
  asm("mrs %0, tpidr_el0" : "=r"(tp));
#endif
  return tp;
}

// How far our variables are from the thread pointer, on either side of it.
size_t tls_reach() {
  const char* tp = thread_pointer();
  const char* here = &landmark;
  const size_t distance =
      static_cast<size_t>(here < tp ? tp - here : here - tp);
  return round_up(distance + kSlack, kSlack);
}

void* make_thread_pointer(char* middle) {
#if defined(__x86_64__)
  *reinterpret_cast<void**>(middle) = middle;
  *reinterpret_cast<void**>(middle + 16) = middle;
#endif
  return middle;
}

// CLONE_FS is for valgrind, which knows no other threads; what it shares would
// keep the program from entering a mount namespace. A working directory of our
// own would keep a file system busy that the program has left.
void thread_entry(Start* start) {
  if (sys::invoke(SYS_unshare, CLONE_FS) == 0) sys::invoke(SYS_chdir, "/");
  run(*start);
  sys::invoke(SYS_exit, 0);
}

// clone(2) of a thread that calls `entry` on its stack: libc's own would write
// the errno of a thread of ours, who have none. The thread's id or -errno.
long start_on(void* stack, long flags, void* pointer, void (*entry)(Start*),
              Start* start) {
#if defined(__x86_64__)
  long ret;
  register long child_tid asm("r10") = 0;
  register void* tls asm("r8") = pointer;
  register void* call asm("r12") = reinterpret_cast<void*>(entry);
  register void* with asm("r13") = start;
  asm volatile(
      "syscall\n\t"
      "testq %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xorl %%ebp, %%ebp\n\t"  // the outermost frame, for those who unwind
      "movq %%r13, %%rdi\n\t"
      "callq *%%r12\n\t"
      "ud2\n"
      "1:"
      : "=a"(ret)
      : "a"(SYS_clone), "D"(flags), "S"(stack), "d"(0L), "r"(child_tid),
        "r"(tls), "r"(call), "r"(with)
      : "rcx", "r11", "memory");
  return ret;
#else
  register long number asm("x8") = SYS_clone;
  register long ret asm("x0") = flags;
  register void* on asm("x1") = stack;
  register long parent_tid asm("x2") = 0;
  register void* tls asm("x3") = pointer;
  register long child_tid asm("x4") = 0;
  register void* call asm("x19") = reinterpret_cast<void*>(entry);
  register void* with asm("x20") = start;
  asm volatile(
      "svc #0\n\t"
      "cbnz x0, 1f\n\t"
      "mov x29, #0\n\t"
      "mov x0, x20\n\t"
      "blr x19\n\t"
      "brk #1\n"
      "1:"
      : "+r"(ret)
      : "r"(number), "r"(on), "r"(parent_tid), "r"(tls), "r"(child_tid),
        "r"(call), "r"(with)
      : "memory");
  return ret;
#endif
}

}  // namespace

int start_thread(const char* name, ThreadMain main, void* argument) {
  const size_t reach = tls_reach();
  const size_t size = 2 * reach + kStackSize;
  char* base = static_cast<char*>(mapping::reserve(size, MADV_DONTFORK));
  if (base == nullptr) return -ENOMEM;
  Start* start = reinterpret_cast<Start*>(base + size - sizeof(Start));
  start->main = main;
  start->argument = argument;
  copy_name(start->name, name);
  char* stack = reinterpret_cast<char*>(
      round_down(reinterpret_cast<uint64_t>(start), 64));
  constexpr long kFlags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
                          CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS;
  SignalGuard signals;  // the new thread inherits the blocked mask
  const long tid = start_on(stack, kFlags, make_thread_pointer(base + reach),
                            thread_entry, start);
  if (tid < 0) mapping::release(base, size);
  return static_cast<int>(tid);
}

#endif

}  // namespace racache
