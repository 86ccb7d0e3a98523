// SPDX-License-Identifier: MIT
// Not seen: timeouts of sockets that came from another process, and write(2)
// and writev(2), which nobody else needs a hook on.
#include "preload/socket.h"

#include <sys/socket.h>

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

namespace hook {

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
  before_socket_wait();
  return real::recv(fd, buffer, count, flags);
}

ssize_t recvfrom(int fd, void* buffer, size_t count, int flags,
                 sockaddr* address, unsigned* size) {
  before_socket_wait();
  return real::recvfrom(fd, buffer, count, flags, address, size);
}

ssize_t recvmsg(int fd, msghdr* message, int flags) {
  before_socket_wait();
  return real::recvmsg(fd, message, flags);
}

int recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags,
             timespec* timeout) {
  before_socket_wait();
  return real::recvmmsg(fd, messages, count, flags, timeout);
}

ssize_t send(int fd, const void* buffer, size_t count, int flags) {
  before_socket_wait();
  return real::send(fd, buffer, count, flags);
}

ssize_t sendto(int fd, const void* buffer, size_t count, int flags,
               const sockaddr* address, unsigned size) {
  before_socket_wait();
  return real::sendto(fd, buffer, count, flags, address, size);
}

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  share_rights_in(message);
  before_socket_wait();
  return real::sendmsg(fd, message, flags);
}

int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
  share_rights_in(messages, count);
  before_socket_wait();
  return real::sendmmsg(fd, messages, count, flags);
}

// Fortify: libc compares, and ends the program if it must.
ssize_t __recv_chk(int fd, void* buffer, size_t count, size_t room, int flags) {
  before_socket_wait();
  return real::__recv_chk(fd, buffer, count, room, flags);
}

ssize_t __recvfrom_chk(int fd, void* buffer, size_t count, size_t room,
                       int flags, sockaddr* address, unsigned* size) {
  before_socket_wait();
  return real::__recvfrom_chk(fd, buffer, count, room, flags, address, size);
}

}  // namespace hook
}  // namespace racache::preload
