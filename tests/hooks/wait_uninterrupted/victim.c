/* SPDX-License-Identifier: MIT */
/* Completions of reads that the library has in flight interrupt the thread
 * that started them; some waits then return EINTR instead of being restarted.
 * A program that has no signal handlers must not see that. */
#include "../victim.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/sem.h>
#include <time.h>

enum { kChunk = 512 << 10, kChunks = 96 };
static int interrupted;

static void note(int result) { interrupted += result == -1 && errno == EINTR; }

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
  int poll = epoll_create1(0);
  int semaphore = semget(IPC_PRIVATE, 1, 0600);
  for (int i = 0; i < kChunks; ++i) {
    CHECK(readahead(fd, (off_t)i * kChunk, kChunk) == 0);
    wait_once(i % 5, poll, semaphore);
  }
  semctl(semaphore, 0, IPC_RMID);
  for (int i = 0; i < kChunks; ++i) {
    CHECK(preads(fd, 50000, (uint64_t)i * kChunk, 0));
  }
  CHECK(interrupted == 0);
  return verdict();
}
