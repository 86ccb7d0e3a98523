/* SPDX-License-Identifier: MIT */
/* Completions of reads that the library has in flight interrupt the thread
 * that started them; some waits then return EINTR instead of being restarted.
 * A program that has no signal handlers must not see that. */
#include "../victim.h"

#include <linux/aio_abi.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/uio.h>
#include <time.h>

enum { kChunk = 512 << 10, kChunks = 112 };
static int interrupted;

static void note(int result) { interrupted += result == -1 && errno == EINTR; }

/* Sockets on which nothing ever comes, with timeouts of 3 ms. */
static int silent[2], listening, full;
static aio_context_t aio;

static void make_sockets(void) {
  struct timeval limit = {0, 3000};
  struct sockaddr_un address = {AF_UNIX, "listening"};
  char block[4096] = {0};
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, silent) == 0);
  full = silent[1];
  while (send(full, block, sizeof block, MSG_DONTWAIT) > 0) continue;
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, silent) == 0);
  listening = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK(bind(listening, (struct sockaddr *)&address, sizeof address) == 0);
  CHECK(listen(listening, 1) == 0);
  CHECK(syscall(SYS_io_setup, 8, &aio) == 0);
  int all[3] = {silent[0], listening, full};
  for (int i = 0; i < 3; ++i) {
    CHECK(setsockopt(all[i], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) ==
          0);
    CHECK(setsockopt(all[i], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) ==
          0);
  }
}

static void socket_wait_once(int kind) {
  char block[4096] = {0};
  struct iovec iov = {block, sizeof block};
  struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
  struct mmsghdr messages = {.msg_hdr = message};
  struct io_event events[1];
  struct timespec limit = {0, 3000000};
  switch (kind) {
    case 0: note(recv(silent[0], block, sizeof block, 0)); break;
    case 1: note(recvfrom(silent[0], block, 1, 0, NULL, NULL)); break;
    case 2: note(recvmsg(silent[0], &message, 0)); break;
    case 3: note(recvmmsg(silent[0], &messages, 1, 0, NULL)); break;
    case 4: note(read(silent[0], block, sizeof block)); break;
    case 5: note(readv(silent[0], &iov, 1)); break;
    case 6: note(accept(listening, NULL, NULL)); break;
    case 7: note(accept4(listening, NULL, NULL, SOCK_CLOEXEC)); break;
    case 8: note(send(full, block, sizeof block, 0)); break;
    case 9: note(sendto(full, block, sizeof block, 0, NULL, 0)); break;
    case 10: note(sendmsg(full, &message, 0)); break;
    case 11: note(sendmmsg(full, &messages, 1, 0)); break;
    case 12: note(syscall(SYS_io_getevents, aio, 1, 1, events, &limit)); break;
    default: note(syscall(SYS_recvfrom, silent[0], block, 1, 0, 0, 0));
  }
}

/* Each kind of wait in turn, a few milliseconds after a hint. */
static void wait_once(int kind, int poll, int semaphore) {
  struct epoll_event event;
  struct timespec limit = {0, 3000000};
  struct sembuf down = {0, -1, 0};
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  switch (kind) {
    case 0:
      note(epoll_wait(poll, &event, 1, 3));
      break;
    case 1:
      note(epoll_pwait(poll, &event, 1, 3, NULL));
      break;
    case 2:
      note(epoll_pwait2(poll, &event, 1, &limit, NULL));
      break;
    case 3:
      note(semtimedop(semaphore, &down, 1, &limit));
      break;
    default:
      note(sigtimedwait(&set, NULL, &limit));
  }
}

int main(void) {
  make_file("data", (size_t)kChunk * kChunks, 0);
  int fd = open("data", O_RDWR);
  fsync(fd);
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); /* cold from here on */
  close(fd);
  fd = open("data", O_RDONLY);
  make_sockets();
  int poll = epoll_create1(0);
  int semaphore = semget(IPC_PRIVATE, 1, 0600);
  for (int i = 0; i < kChunks; ++i) {
    CHECK(readahead(fd, (off_t)i * kChunk, kChunk) == 0);
    if (i % 2 == 0) wait_once(i / 2 % 5, poll, semaphore);
    if (i % 2 == 1) socket_wait_once(i / 2 % 14);
  }
  CHECK(interrupted == 0);
  semctl(semaphore, 0, IPC_RMID);
  for (int i = 0; i < kChunks; ++i) {
    CHECK(preads(fd, 50000, (uint64_t)i * kChunk, 0));
  }
  return verdict();
}
