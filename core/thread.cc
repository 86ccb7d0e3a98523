// SPDX-License-Identifier: MIT
#include "core/thread.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <cerrno>

#include "core/lock.h"
#include "core/sys.h"

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
// keep the program from entering a mount namespace.
int thread_entry(void* argument) {
  sys::invoke(SYS_unshare, CLONE_FS);
  run(*static_cast<Start*>(argument));
  sys::invoke(SYS_exit, 0);
  return 0;
}

}  // namespace

int start_thread(const char* name, ThreadMain main, void* argument) {
  const size_t reach = tls_reach();
  const size_t size = 2 * reach + kStackSize;
  long mapped = sys::invoke(SYS_mmap, 0L, size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
  if (sys::failed(mapped)) return static_cast<int>(mapped);
  char* base = reinterpret_cast<char*>(mapped);
  sys::invoke(SYS_madvise, base, size, MADV_DONTFORK);
  Start* start = reinterpret_cast<Start*>(base + size - sizeof(Start));
  start->main = main;
  start->argument = argument;
  copy_name(start->name, name);
  char* stack = reinterpret_cast<char*>(
      round_down(reinterpret_cast<uint64_t>(start), 64));
  constexpr int kFlags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
                         CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |
                         CLONE_PARENT_SETTID;
  SignalGuard signals;  // the new thread inherits the blocked mask
  // libc's clone is a bare wrapper: it neither allocates nor registers. It is
  // called by the name that nobody interposes: this thread is no business of
  // the hooks. On failure it sets errno, which the hook around us restores.
  int parent_tid = 0;
  int tid = ::__clone(thread_entry, stack, kFlags, start, &parent_tid,
                      make_thread_pointer(base + reach), nullptr);
  if (tid < 0) {
    const int err = errno;
    sys::invoke(SYS_munmap, base, size);
    return -err;
  }
  return tid;
}

#endif

}  // namespace racache
