/* SPDX-License-Identifier: MIT */
/* A blocking call that moves many bytes stops in the middle when a signal
 * arrives, and says how many it moved. Completions of reads that the library
 * has in flight are no signal; many programs do not expect to be cut short. */
#include "../victim.h"

#include <netinet/in.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

enum { kChunk = 512 << 10, kKinds = 17, kRounds = 6, kMuch = 1 << 20 };
enum { kChunks = kKinds * kRounds };
static char much[kMuch];
static int pipes[2], sockets[2], talkers[2], zero;
static _Atomic int finished;

/* Empties what the others fill, slowly. */
static void *drain(void *argument) {
  int fd = *(int *)argument;
  static __thread char buffer[32768];
  while (read(fd, buffer, sizeof buffer) > 0) usleep(50);
  return NULL;
}

static void *talk(void *argument) {
  static char block[4096];
  (void)argument;
  while (!finished && send(talkers[1], block, sizeof block, MSG_NOSIGNAL) > 0) {
    usleep(20);
  }
  return NULL;
}

static ssize_t move_much(int kind, int file) {
  struct iovec iov = {much, kMuch};
  struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
  off_t offset = 0;
  switch (kind) {
    case 0: return write(pipes[1], much, kMuch);
    case 1: return writev(pipes[1], &iov, 1);
    case 2: return write(sockets[1], much, kMuch);
    case 3: return send(sockets[1], much, kMuch, 0);
    case 4: return sendto(sockets[1], much, kMuch, 0, NULL, 0);
    case 5: return sendmsg(sockets[1], &message, 0);
    case 6: return recv(talkers[0], much, kMuch, MSG_WAITALL);
    case 7: return recvmsg(talkers[0], &message, MSG_WAITALL);
    case 8: return getrandom(much, kMuch, 0);
    case 9: return sendfile(sockets[1], file, &offset, kMuch);
    case 10: return syscall(SYS_write, pipes[1], much, kMuch);
    case 11: return read(zero, much, kMuch);
    case 12: return pread(zero, much, kMuch, 0);
    case 13: return readv(zero, &iov, 1);
    case 14: return preadv(zero, &iov, 1, 0);
    case 15: return syscall(SYS_read, zero, much, kMuch);
    default: return syscall(SYS_sendto, sockets[1], much, kMuch, 0, NULL, 0);
  }
}

/* Milliseconds that close(2) lingers over bytes that nobody takes. */
static long lingering(int file, off_t ahead) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  socklen_t size = sizeof address;
  struct linger second = {1, 1};
  struct timespec begin, end;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int server = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(bind(server, (struct sockaddr *)&address, sizeof address) == 0);
  CHECK(listen(server, 1) == 0);
  CHECK(getsockname(server, (struct sockaddr *)&address, &size) == 0);
  int client = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(connect(client, (struct sockaddr *)&address, size) == 0);
  while (send(client, much, 65536, MSG_DONTWAIT) > 0) continue;
  CHECK(setsockopt(client, SOL_SOCKET, SO_LINGER, &second, sizeof second) == 0);
  CHECK(readahead(file, ahead, kChunk) == 0);
  clock_gettime(CLOCK_MONOTONIC, &begin);
  close(client);
  clock_gettime(CLOCK_MONOTONIC, &end);
  close(server);
  return (end.tv_sec - begin.tv_sec) * 1000 +
         (end.tv_nsec - begin.tv_nsec) / 1000000;
}

/* Milliseconds that a vfork child takes to say one word. The parent, whose
 * reads these are, cannot go on before. */
static long child_writing(int file, off_t ahead) {
  struct timespec begin, end;
  CHECK(readahead(file, ahead, kChunk) == 0);
  clock_gettime(CLOCK_MONOTONIC, &begin);
  pid_t pid = vfork();
  if (pid == 0) {
    for (int i = 0; i < 5; ++i) write(pipes[1], "word", 4);
    _exit(0);
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  waitpid(pid, NULL, 0);
  return (end.tv_sec - begin.tv_sec) * 1000 +
         (end.tv_nsec - begin.tv_nsec) / 1000000;
}

/* From file to file the kernel goes page by page, and stops alike. By a thread
 * that has written to no stream yet: later its reads are submitted by another.
 */
static int copies_cut_short(int fd, off_t ahead) {
  enum { kLong = 16 << 20 };
  int copy = open("copy", O_WRONLY | O_CREAT | O_TRUNC, 0600), cut_short = 0;
  for (int i = 0; i < 3 * kRounds; ++i) {
    off_t from = 0, to = 0;
    ssize_t moved;
    CHECK(readahead(fd, ahead + (off_t)i * kChunk, kChunk) == 0);
    switch (i % 3) {
      case 0:
        moved = copy_file_range(fd, &from, copy, &to, kLong, 0);
        break;
      case 1:
        moved = syscall(SYS_copy_file_range, fd, &from, copy, &to, kLong, 0L);
        break;
      default:
        lseek(copy, 0, SEEK_SET);
        moved = sendfile(copy, fd, &from, kLong);
    }
    cut_short += moved != kLong;
  }
  close(copy);
  unlink("copy");
  return cut_short;
}

int main(void) {
  pthread_t threads[3];
  int cut_short = 0;
  make_file("data", (size_t)kChunk * (kChunks + 8 + 3 * kRounds), 0);
  int fd = open("data", O_RDWR);
  fsync(fd);
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); /* cold from here on */
  close(fd);
  fd = open("data", O_RDONLY);
  CHECK(copies_cut_short(fd, (off_t)kChunk * (kChunks + 8)) == 0);
  zero = open("/dev/zero", O_RDONLY);
  CHECK(pipe(pipes) == 0);
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, talkers) == 0);
  pthread_create(&threads[0], NULL, drain, &pipes[0]);
  pthread_create(&threads[1], NULL, drain, &sockets[0]);
  pthread_create(&threads[2], NULL, talk, NULL);
  for (int i = 0; i < kChunks; ++i) {
    CHECK(readahead(fd, (off_t)i * kChunk, kChunk) == 0);
    cut_short += move_much(i % kKinds, fd) != kMuch;
  }
  CHECK(cut_short == 0);
  for (int i = 0; i < 2; ++i) {
    CHECK(lingering(fd, (off_t)(kChunks + i) * kChunk) >= 900);
  }
  for (int i = 2; i < 8; ++i) {
    CHECK(child_writing(fd, (off_t)(kChunks + i) * kChunk) < 90);
  }
  finished = 1;
  close(pipes[1]);
  shutdown(sockets[1], SHUT_RDWR);
  shutdown(talkers[0], SHUT_RDWR);
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < kChunks; ++i) {
    CHECK(preads(fd, 50000, (uint64_t)i * kChunk, 0));
  }
  return verdict();
}
