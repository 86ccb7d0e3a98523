// SPDX-License-Identifier: MIT
// Not seen: timeouts of sockets that came from another process, and what libc
// and libaio do by themselves (fread on such a socket, io_getevents).
#include "preload/stream.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "preload/real.h"
#include "preload/transfer.h"

namespace racache::preload {

constinit std::atomic<bool> g_socket_timeouts{false};

void note_socket_option(int level, int option) {
  // Their other numbers, of 32-bit platforms with 64-bit times.
  constexpr int kReceiveTimeoutNew = 66, kSendTimeoutNew = 67;
  if (level != SOL_SOCKET) return;
  if (option == SO_RCVTIMEO || option == SO_SNDTIMEO ||
      option == kReceiveTimeoutNew || option == kSendTimeoutNew) {
    g_socket_timeouts.store(true, std::memory_order_relaxed);
  }
}

// What is not a file on a disk, and would wait. /dev/null takes all at once.
void wait_before_stream(int fd) {
  const dev_t null = makedev(1, 3);
  const long flags = sys::invoke(SYS_fcntl, fd, F_GETFL, 0);
  if (sys::failed(flags) || (flags & O_NONBLOCK) != 0) return;
  struct stat st;
  if (sys::failed(sys::invoke(SYS_fstat, fd, &st))) return;
  if (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode)) return;
  if (S_ISCHR(st.st_mode) && st.st_rdev == null) return;
  engine::quiesce();
}

void wait_before_device(int fd) {
  struct stat st;
  if (sys::failed(sys::invoke(SYS_fstat, fd, &st))) return;
  if (S_ISCHR(st.st_mode)) return engine::quiesce();
  if (S_ISSOCK(st.st_mode)) before_socket_wait();
}

void wait_before_linger(int fd) {
  linger value{};
  unsigned size = sizeof value;
  const long got =
      sys::invoke(SYS_getsockopt, fd, SOL_SOCKET, SO_LINGER, &value, &size);
  if (!sys::failed(got) && value.l_onoff != 0) engine::quiesce();
}

void before_receive(int fd, int flags) {
  before_socket_wait();
  if ((flags & MSG_WAITALL) != 0) before_stream(fd);
}

void before_send(int fd, int flags) {
  if ((flags & MSG_DONTWAIT) == 0) before_stream(fd);
}

namespace hook {

ssize_t write(int fd, const void* buffer, size_t count) {
  before_stream(fd);
  return real::write(fd, buffer, count);
}

ssize_t writev(int fd, const iovec* iov, int count) {
  before_stream(fd);
  return real::writev(fd, iov, count);
}

ssize_t getrandom(void* buffer, size_t count, unsigned flags) {
  before_random(count);
  return real::getrandom(buffer, count, flags);
}

int setsockopt(int fd, int level, int option, const void* value,
               unsigned size) {
  note_socket_option(level, option);
  return real::setsockopt(fd, level, option, value, size);
}

int accept(int fd, sockaddr* address, unsigned* size) {
  before_socket_wait();
  return real::accept(fd, address, size);
}

int accept4(int fd, sockaddr* address, unsigned* size, int flags) {
  before_socket_wait();
  return real::accept4(fd, address, size, flags);
}

int connect(int fd, const sockaddr* address, unsigned size) {
  before_socket_wait();
  return real::connect(fd, address, size);
}

ssize_t recv(int fd, void* buffer, size_t count, int flags) {
  before_receive(fd, flags);
  return real::recv(fd, buffer, count, flags);
}

ssize_t recvfrom(int fd, void* buffer, size_t count, int flags,
                 sockaddr* address, unsigned* size) {
  before_receive(fd, flags);
  return real::recvfrom(fd, buffer, count, flags, address, size);
}

ssize_t recvmsg(int fd, msghdr* message, int flags) {
  before_receive(fd, flags);
  return real::recvmsg(fd, message, flags);
}

int recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags,
             timespec* timeout) {
  before_receive(fd, flags);
  return real::recvmmsg(fd, messages, count, flags, timeout);
}

ssize_t send(int fd, const void* buffer, size_t count, int flags) {
  before_send(fd, flags);
  return real::send(fd, buffer, count, flags);
}

ssize_t sendto(int fd, const void* buffer, size_t count, int flags,
               const sockaddr* address, unsigned size) {
  before_send(fd, flags);
  return real::sendto(fd, buffer, count, flags, address, size);
}

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  share_rights_in(message);
  before_send(fd, flags);
  return real::sendmsg(fd, message, flags);
}

int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
  share_rights_in(messages, count);
  before_send(fd, flags);
  return real::sendmmsg(fd, messages, count, flags);
}

// Fortify: libc compares, and ends the program if it must.
ssize_t __recv_chk(int fd, void* buffer, size_t count, size_t room, int flags) {
  before_receive(fd, flags);
  return real::__recv_chk(fd, buffer, count, room, flags);
}

ssize_t __recvfrom_chk(int fd, void* buffer, size_t count, size_t room,
                       int flags, sockaddr* address, unsigned* size) {
  before_receive(fd, flags);
  return real::__recvfrom_chk(fd, buffer, count, room, flags, address, size);
}

}  // namespace hook

RACACHE_DEFINE_TWIN(__write, write)

}  // namespace racache::preload
