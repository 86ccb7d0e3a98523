// SPDX-License-Identifier: MIT
// syscall(2), by which programs reach what libc has no name for (openat2), or
// pass libc by.
//
// The stub (stubs_*.S) sends the numbers marked below to racache_routed_syscall
// or, for those that make processes, tells racache_before_clone; every other
// number never leaves the assembly.
//
// syscall() is no cancellation point, and no other preload library lies between
// it and the kernel: one behind us may even implement its read() by
// syscall(SYS_read). So no body here goes through a hook or a real function;
// each ends in the bare system call. Opens and reads are served as elsewhere;
// what is rarer makes the descriptor's position, or all of it, the kernel's.
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/socket.h>
#include <cstring>

#include "core/cache.h"
#include "preload/descriptors.h"
#include "preload/exit.h"
#include "preload/faults.h"
#include "preload/fd_table.h"
#include "preload/identity.h"
#include "preload/open.h"
#include "preload/own_lease.h"
#include "preload/process.h"
#include "preload/real.h"
#include "preload/sandbox.h"
#include "preload/serve.h"
#include "preload/stream.h"
#include "preload/stubs.h"
#include "preload/transfer.h"

namespace racache::preload {

namespace {

// The system call's arguments, the number first.
struct Call {
  long number, a, b, c, d, e, f;

  int fd() const { return static_cast<int>(a); }
  long make() const { return with_errno(sys::call(number, a, b, c, d, e, f)); }
};

template <class T>
T* pointer(long argument) {
  return reinterpret_cast<T*>(argument);
}
int narrow(long argument) { return static_cast<int>(argument); }

// ---- Reads, seeks, hints ----

long foreign_read(const Call& s) {
  before_foreign_read(s.fd());
  return s.make();
}

long served(const Call& s, long result) {
  return result != serve::kPass ? with_errno(result) : foreign_read(s);
}

long on_read(const Call& s) {
  if (!tracked(s.fd())) return foreign_read(s);
  serve::KernelUse use;
  iovec storage;
  const auto to =
      serve::one_buffer(pointer<void>(s.b), static_cast<size_t>(s.c), storage);
  if (s.number == SYS_pread64)
    return served(s, serve::read_at(s.fd(), to, s.d));
  return served(s, serve::read_next(s.fd(), to, use));
}

// readv, preadv, preadv2. With 64-bit registers the offset is in its first
// half; flags, and more vectors than there may be, are the kernel's business.
long on_read_vector(const Call& s) {
  if (!tracked(s.fd()) || s.c < 0 || s.c > IOV_MAX) return foreign_read(s);
  const bool flags = s.number == SYS_preadv2 && s.f != 0;
  const bool next =
      s.number == SYS_readv || (s.number == SYS_preadv2 && s.d == -1);
  serve::KernelUse use;
  serve::Buffers to =
      serve::many_buffers(pointer<const iovec>(s.b), narrow(s.c));
  if (flags) to.iov = nullptr;
  return served(s, next ? serve::read_next(s.fd(), to, use)
                        : serve::read_at(s.fd(), to, s.d));
}

long on_seek(const Call& s) {
  if (!tracked(s.fd())) return s.make();
  serve::KernelUse use;
  const long result = serve::seek(s.fd(), s.b, narrow(s.c), use);
  return result != serve::kPass ? with_errno(result) : s.make();
}

long on_advise(const Call& s) {
  const bool ours = tracked(s.fd());
  const int advice =
      s.number == SYS_readahead ? POSIX_FADV_WILLNEED : narrow(s.d);
  if (ours && advice == POSIX_FADV_WILLNEED) {
    return serve::willneed(s.fd(), s.b, s.c) ? 0 : s.make();
  }
  const long result = s.make();
  if (!ours || result != 0) return result;
  if (advice == POSIX_FADV_DONTNEED) {
    serve::dontneed(s.fd(), s.b, s.c);
  } else {
    serve::advise(s.fd(), advice);
  }
  return result;
}

// ---- Descriptor numbers ----

// The kernel has read the structure when the call succeeded, or met a lease.
int open_flags(const Call& s) {
  switch (s.number) {
#ifdef SYS_open
    case SYS_open:
      return narrow(s.b);
    case SYS_creat:
      return O_WRONLY;
#endif
    case SYS_openat:
      return narrow(s.c);
    default:
      return static_cast<int>(pointer<open_how>(s.c)->flags);
  }
}

long on_open(const Call& s) {
  const int before = errno;
  long fd = s.make();
  if (fd < 0 && errno != EWOULDBLOCK) return fd;
  const int flags = open_flags(s);
  if (fd < 0) fd = persist(before, flags, [&] { return narrow(s.make()); });
  if (fd >= 0) fd_opened(narrow(fd), flags);
  return fd;
}

long on_close(const Call& s) {
  if (is_ring(s.fd())) return closed_number();
  fd_closing(s.fd());
  return s.make();
}

long close_numbers(unsigned first, unsigned last, unsigned flags) {
  return with_errno(sys::invoke(SYS_close_range, first, last, flags));
}

long on_close_range(const Call& s) {
  const auto first = static_cast<unsigned>(s.a);
  const auto last = static_cast<unsigned>(s.b);
  if (first > last) return s.make();
  const unsigned flags = before_unsharing_range(static_cast<unsigned>(s.c));
  if (flags == 0) fd_range_closing(first, last);
  const int ring = engine::ring_fd();
  const auto number = static_cast<unsigned>(ring);
  if (ring < 0 || number < first || number > last)
    return close_numbers(first, last, flags);
  const long below =
      first < number ? close_numbers(first, number - 1, flags) : 0;
  if (below != 0 || number == last) return below;
  return close_numbers(number + 1, last, flags);
}

long on_duplicate(const Call& s) {
  if (is_ring(s.fd())) return closed_number();
  const bool onto = s.number != SYS_dup && s.number != SYS_fcntl;
  if (onto && s.fd() == narrow(s.b)) return s.make();
  if (onto) before_replacing(s.fd(), narrow(s.b));
  const long fd = s.make();
  after_duplicating(s.fd(), narrow(fd));
  return fd;
}

long on_fcntl(const Call& s) {
  const int command = narrow(s.b);
  if (duplicates(command)) return on_duplicate(s);
  if (is_ring(s.fd())) return closed_number();
  if (command == F_SETLEASE) {
    return own_lease::set(s.fd(), s.c, [&] { return narrow(s.make()); });
  }
  before_fcntl(s.fd(), command, s.c);
  return s.make();
}

// ---- Positions that the kernel uses, processes, waits ----

// What moves a position inside the kernel: transfer.cc.
long on_transfer(const Call& s) {
  switch (s.number) {
    case SYS_sendfile:
      if (s.c == 0) share_position(narrow(s.b));
      break;
    default:  // splice, copy_file_range
      if (s.b == 0) share_position(s.fd());
  }
  before_transfer();
  return s.make();
}

// exit(2) ends one thread. Where that is the program's last one the process
// ends, but for the engine's threads, of which the program knows nothing.
long on_exit(const Call& s) {
  if (engine::generation() == 0 || !in_own_process()) return s.make();
  if (s.number == SYS_exit && !single_threaded()) {
    engine::expect_end(narrow(s.a));
    return s.make();
  }
  finish_process();
  return with_errno(sys::invoke(SYS_exit_group, s.a));
}

long on_unshare(const Call& s) {
  const uint64_t flags = before_unshare(static_cast<uint64_t>(s.a));
  return with_errno(sys::invoke(SYS_unshare, flags));
}

// The calling thread's ids and capabilities.
long on_identity(const Call& s) {
  if (s.number == SYS_prctl) before_prctl(narrow(s.a), s.b, s.c);
  const long result = s.make();
  if (result < 0) return result;
  if (s.number == SYS_capset) {
    follow_capset(pointer<void>(s.a), pointer<void>(s.b));
  } else if (s.number != SYS_prctl || changes_identity(narrow(s.a))) {
    follow_alone(s.number, s.a, s.b, s.c);
  }
  return result;
}

long on_sandbox(const Call& s) {
  before_seccomp(static_cast<unsigned>(s.a), pointer<void>(s.c));
  return s.make();
}

long on_setns(const Call& s) {
  before_setns(s.fd(), narrow(s.b));
  return s.make();
}

long on_execute(const Call& s) {
  share_positions(Share::kInheritable);
  const faults::Inherited inherited;
  return s.make();
}

// Its requests at offset -1 move positions. Many only ask, and are refused.
long on_ring(const Call& s) {
  const long ring = s.make();
  if (ring >= 0) share_positions_for_good();
  return ring;
}

long on_wait(const Call& s) {
  engine::quiesce();
  return s.make();
}

long on_send(const Call& s) {
  int flags = narrow(s.d);  // sendto, sendmmsg
  if (s.number == SYS_sendmsg) {
    share_rights_in(pointer<msghdr>(s.b));
    flags = narrow(s.c);
  } else if (s.number == SYS_sendmmsg) {
    share_rights_in(pointer<mmsghdr>(s.b), static_cast<unsigned>(s.c));
  }
  before_send(s.fd(), flags);
  return s.make();
}

long on_receive(const Call& s) {
  before_receive(s.fd(), narrow(s.number == SYS_recvmsg ? s.c : s.d));
  return s.make();
}

long on_write(const Call& s) {
  before_stream(s.fd());
  return s.make();
}

long on_random(const Call& s) {
  before_random(static_cast<size_t>(s.b));
  return s.make();
}

long on_socket_wait(const Call& s) {
  before_socket_wait();
  return s.make();
}

long on_socket_option(const Call& s) {
  note_socket_option(narrow(s.b), narrow(s.c));
  return s.make();
}

using Body = long (*)(const Call&);
struct Route {
  long number;
  Body body;  // null: makes a process
};
constexpr Route kRoutes[] = {
#ifdef SYS_open
    {SYS_open, on_open},           {SYS_creat, on_open},
    {SYS_dup2, on_duplicate},      {SYS_fork, nullptr},
    {SYS_vfork, nullptr},          {SYS_epoll_wait, on_wait},
#endif
    {SYS_openat, on_open},         {SYS_openat2, on_open},
    {SYS_read, on_read},           {SYS_pread64, on_read},
    {SYS_readv, on_read_vector},   {SYS_preadv, on_read_vector},
    {SYS_preadv2, on_read_vector}, {SYS_lseek, on_seek},
    {SYS_fadvise64, on_advise},    {SYS_readahead, on_advise},
    {SYS_close, on_close},         {SYS_close_range, on_close_range},
    {SYS_dup, on_duplicate},       {SYS_dup3, on_duplicate},
    {SYS_fcntl, on_fcntl},         {SYS_sendfile, on_transfer},
    {SYS_splice, on_transfer},     {SYS_copy_file_range, on_transfer},
    {SYS_sendmsg, on_send},        {SYS_sendmmsg, on_send},
    {SYS_write, on_write},         {SYS_writev, on_write},
    {SYS_getrandom, on_random},    {SYS_io_getevents, on_wait},
    {SYS_clone, nullptr},          {SYS_clone3, nullptr},
    {SYS_execve, on_execute},      {SYS_execveat, on_execute},
    {SYS_exit, on_exit},           {SYS_exit_group, on_exit},
    {SYS_unshare, on_unshare},     {SYS_epoll_pwait, on_wait},
    {SYS_epoll_pwait2, on_wait},   {SYS_semop, on_wait},
    {SYS_semtimedop, on_wait},     {SYS_rt_sigtimedwait, on_wait},
    {SYS_setuid, on_identity},     {SYS_setgid, on_identity},
    {SYS_setreuid, on_identity},   {SYS_setregid, on_identity},
    {SYS_setresuid, on_identity},  {SYS_setresgid, on_identity},
    {SYS_setfsuid, on_identity},   {SYS_setfsgid, on_identity},
    {SYS_setgroups, on_identity},  {SYS_capset, on_identity},
    {SYS_prctl, on_identity},      {SYS_seccomp, on_sandbox},
    {SYS_setns, on_setns},         {SYS_setsockopt, on_socket_option},
    {SYS_accept, on_socket_wait},  {SYS_accept4, on_socket_wait},
    {SYS_connect, on_socket_wait}, {SYS_recvfrom, on_receive},
    {SYS_recvmsg, on_receive},     {SYS_recvmmsg, on_receive},
    {SYS_sendto, on_send},         {SYS_io_uring_setup, on_ring},
};

// The flags of a clone3: the first word of its arguments, 64 bytes or more.
uint64_t clone3_flags(long arguments, long size) {
  uint64_t flags = 0;
  const void* from = pointer<void>(arguments);
  if (size >= 64 && plausible(from)) std::memcpy(&flags, from, sizeof flags);
  return flags;
}

}  // namespace

// The stubs read `route`, at the front, by the number. Numbers are small on
// all architectures we know; a larger one does not compile.
struct SyscallTable {
  unsigned char route[RACACHE_ROUTES];
  Body body[RACACHE_ROUTES];
};
constexpr SyscallTable make_table() {
  SyscallTable table{};
  for (const Route& row : kRoutes) {
    table.route[row.number] =
        row.body != nullptr ? RACACHE_ROUTE_BODY : RACACHE_ROUTE_CLONE;
    table.body[row.number] = row.body;
  }
  return table;
}
[[gnu::visibility("hidden")]] extern const SyscallTable syscall_table asm(
    "racache_syscall_routes");
[[gnu::used]] constinit const SyscallTable syscall_table = make_table();

}  // namespace racache::preload

extern "C" {  // for the stubs
#pragma GCC visibility push(hidden)

[[gnu::used]] long racache_routed_syscall(long number, long a, long b, long c,
                                          long d, long e, long f) {
  using namespace racache::preload;
  return syscall_table.body[number]({number, a, b, c, d, e, f});
}

[[gnu::used]] void racache_before_clone(long number, long a, long b) {
  using namespace racache::preload;
  uint64_t flags = 0;  // fork
  if (number == SYS_clone) flags = static_cast<uint64_t>(a);
  if (number == SYS_clone3) flags = clone3_flags(a, b);
#ifdef SYS_vfork
  if (number == SYS_vfork) flags = CLONE_VM | CLONE_VFORK;
#endif
  before_clone_flags(flags);
}

#pragma GCC visibility pop
}
