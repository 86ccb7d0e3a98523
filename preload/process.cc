// SPDX-License-Identifier: MIT
// fork and its relatives, and the calls by which libc starts programs.
//
// Invariant: at the moment a descriptor becomes visible to another process, its
// position is the kernel's. Which descriptors that are depends on the call: a
// fork copies all, a program started without file actions gets those without
// close-on-exec. What a vfork child does to its own numbers is the matter of
// the hooks it calls (fd.cc); its exec comes through exec.cc.
//
// The child side of a fork finds the engine's memory gone or wiped, and the
// descriptor table's entries shared. It has one duty: to close its copy of the
// ring, which would keep the parent's files open, and their leases held, when
// the parent is killed.
#include "preload/process.h"
#include "core/cache.h"

#include "preload/faults.h"

#include <linux/close_range.h>
#include <linux/nsfs.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <atomic>
#include <cstdio>

#include "preload/fd_table.h"
#include "preload/real.h"

extern "C" [[gnu::weak]] char __libc_single_threaded;  // libc's, since 2.32

namespace racache::preload {
namespace {

// Set before the first clone(2) of a process that shares our numbers, in whose
// memory it is set as well. Orders nothing: both sides come by it by the clone.
constinit std::atomic<bool> numbers_shared{false};

// The ring's number when the last fork began, for the child; or -1. It is only
// copied by the fork.
constinit std::atomic<int> ring_to_close{-1};

void remember_ring() {
  ring_to_close.store(engine::ring_fd(), std::memory_order_relaxed);
}

// The number may have been given to something else while the fork began: only
// a ring accepts this call.
void close_inherited_ring() {
  const int fd = ring_to_close.exchange(-1, std::memory_order_relaxed);
  if (fd < 0) return;
  const long entered = sys::invoke(SYS_io_uring_enter, fd, 0L, 0L, 0L, 0L, 0L);
  if (!sys::failed(entered)) sys::invoke(SYS_close, fd);
}

// Whether the caller gets a table of its own by a call that unshares it. libc
// does not forget that there were more threads.
bool unshares() {
  if (numbers_shared.load(std::memory_order_relaxed) || !in_own_process())
    return true;
  return !single_threaded() && !engine::only_thread();
}

}  // namespace

bool single_threaded() {
  return &__libc_single_threaded != nullptr && __libc_single_threaded != 0;
}

void before_fork() {
  share_positions(Share::kAll);
  engine::before_fork();
  remember_ring();
}

void before_clone_flags(uint64_t flags) {
  const bool same_memory = (flags & CLONE_VM) != 0;
  const bool same_numbers = (flags & CLONE_FILES) != 0;
  if (same_numbers) numbers_shared.store(true, std::memory_order_relaxed);
  if (same_memory && same_numbers) return;
  if ((flags & CLONE_THREAD) != 0) return fd_forget_everything();
  share_positions(same_memory ? Share::kInheritable : Share::kAll);
  if (!same_memory) remember_ring();
}

// What the kernel grants to a process with one thread only. Where the program
// has more, it is refused with us or without.
void before_being_alone() {
  if (in_own_process() && engine::only_thread()) engine::shut_down();
}

uint64_t before_unshare(uint64_t flags) {
  constexpr uint64_t kAlone =
      CLONE_NEWUSER | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM;
  if ((flags & kAlone) != 0) before_being_alone();
  if ((flags & CLONE_FILES) == 0) return flags;
  if (!unshares()) return flags & ~uint64_t{CLONE_FILES};
  fd_forget_everything();
  return flags;
}

void before_setns(int fd, int type) {
  if (engine::generation() == 0) return;
  constexpr long kNewTime = 0x80;  // CLONE_NEWTIME, which old headers lack
  constexpr long kAlone = CLONE_NEWUSER | kNewTime;
  long types = type;
  if (type == 0) types = sys::invoke(SYS_ioctl, fd, NS_GET_NSTYPE);
  if (!sys::failed(types) && (types & kAlone) != 0) before_being_alone();
}

unsigned before_unsharing_range(unsigned flags) {
  if ((flags & CLOSE_RANGE_UNSHARE) == 0) return flags;
  if (!unshares()) return flags & ~unsigned{CLOSE_RANGE_UNSHARE};
  if (in_own_process()) fd_forget_everything();
  return flags;
}

// Prepare handlers run last-registered first: ours, from an early constructor,
// runs after those of the program, which may still read. Room for it is in
// libc's static list, so nothing is allocated.
// In the child, which has one thread yet: what the others held is nobody's.
void in_child() {
  close_inherited_ring();
  fd_forget_threads();
  faults::forget_threads();
}

void install_fork_handler() {
  pthread_atfork(before_fork, engine::after_fork, in_child);
}

namespace {

// Actions may put any descriptor under any number in the child.
Share shared_by(const void* actions) {
  return actions == nullptr ? Share::kInheritable : Share::kAll;
}

// The beginning of a clone() child that is a process of its own.
struct Start {
  int (*function)(void*);
  void* argument;
  bool own_memory;
};

// libc ends such a child by exit(2), which ends one thread; and the engine may
// have started others in it.
int begin_process(void* pointer) {
  const Start start = *static_cast<const Start*>(pointer);
  if (start.own_memory) close_inherited_ring();
  hook::_exit(start.function(start.argument));
  return 0;
}

// On top of the child's stack, which is writable memory of ours until then.
void* push_start(void* stack, const Start& start) {
  auto top = reinterpret_cast<uintptr_t>(stack) - sizeof(Start);
  auto* place = reinterpret_cast<Start*>(top & ~uintptr_t{15});
  *place = start;
  return place;
}

void forget_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd) fd_closing(fd);
}

}  // namespace

namespace hook {

// _Fork(3) is fork(2) without the handlers.
pid_t _Fork() {
  before_fork();
  const pid_t pid = real::_Fork();
  if (pid != 0) engine::after_fork();
  if (pid == 0) close_inherited_ring();
  return pid;
}

// clone(2), libc's form: the child begins in a function on a stack of its own,
// so that our frame is nobody else's. The last three are optional; they are
// passed on whether they are there or not.
int clone(int (*function)(void*), void* stack, int flags, void* argument,
          void* parent_tid, void* tls, void* child_tid) {
  before_clone_flags(static_cast<unsigned>(flags));
  if ((flags & CLONE_THREAD) == 0 && function != nullptr && stack != nullptr) {
    const bool own_memory = (flags & (CLONE_VM | CLONE_FILES)) == 0;
    stack = argument = push_start(stack, {function, argument, own_memory});
    function = begin_process;
  }
  return real::clone(function, stack, flags, argument, parent_tid, tls,
                     child_tid);
}

int unshare(int flags) {
  const uint64_t rest = before_unshare(static_cast<unsigned>(flags));
  return real::unshare(static_cast<int>(rest));
}

int setns(int fd, int type) {
  before_setns(fd, type);
  return real::setns(fd, type);
}

int posix_spawn(pid_t* pid, const char* path, const void* actions,
                const void* attributes, char* const* argv, char* const* envp) {
  share_positions(shared_by(actions));
  const faults::Inherited inherited;
  return real::posix_spawn(pid, path, actions, attributes, argv, envp);
}

int posix_spawnp(pid_t* pid, const char* file, const void* actions,
                 const void* attributes, char* const* argv, char* const* envp) {
  share_positions(shared_by(actions));
  const faults::Inherited inherited;
  return real::posix_spawnp(pid, file, actions, attributes, argv, envp);
}

// system(NULL) only asks whether there is a shell.
int system(const char* command) {
  if (command != nullptr) share_positions(Share::kInheritable);
  const faults::Inherited inherited;
  return real::system(command);
}

// The pipe's number is new to us, whatever its slot says. pclose needs no
// hook: that number was never ours.
FILE* popen(const char* command, const char* mode) {
  share_positions(Share::kInheritable);
  const faults::Inherited inherited;
  FILE* stream = real::popen(command, mode);
  if (stream != nullptr) fd_closing(fileno(stream));
  return stream;
}

// daemon(3) forks inside libc (the handler has its turn) and then, unless
// no_close, replaces 0 to 2 by /dev/null.
int daemon(int no_chdir, int no_close) {
  share_positions(Share::kAll);
  const int result = real::daemon(no_chdir, no_close);
  if (result == 0 && no_close == 0) forget_standard_streams();
  return result;
}

// login_tty(3) puts the terminal on 0 to 2 and closes its own number.
int login_tty(int fd) {
  const int result = real::login_tty(fd);
  if (result == 0) {
    forget_standard_streams();
    fd_closing(fd);
  }
  return result;
}

// forkpty(3): a fork whose child has had its login_tty inside libc.
int forkpty(int* master, char* name, const void* termios, const void* size) {
  share_positions(Share::kAll);
  const int pid = real::forkpty(master, name, termios, size);
  if (pid == 0) forget_standard_streams();
  return pid;
}

}  // namespace hook
}  // namespace racache::preload

// Called by the stub of vfork (stubs_*.S) on the caller's thread: the child
// runs in our memory and on our stack until it executes or leaves.
extern "C" [[gnu::visibility("hidden"), gnu::used]] void
racache_before_vfork() {
  racache::preload::share_positions(racache::preload::Share::kInheritable);
}
