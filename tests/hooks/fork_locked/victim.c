/* SPDX-License-Identifier: MIT */
/* A fork while other threads are inside the library must leave the child no
 * lock that nobody will open, nor a position of its own. Four threads read,
 * 300 children read, seek, open; a child that takes ten seconds hangs. */
#include "../victim.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { kSize = 8 << 20, kForks = 300 };
static atomic_int stop, bad_reads;

static void* reader(void* seed) {
  uint64_t x = (uintptr_t)seed;
  while (!atomic_load(&stop)) {
    int fd = open("data", O_RDONLY);
    for (int i = 0; i < 30; ++i) {
      x = x * 6364136223846793005u + 1442695040888963407u;
      uint64_t at = (x >> 33) % (kSize - 9000);
      if (!preads(fd, 9000, at, 0)) atomic_fetch_add(&bad_reads, 1);
    }
    if (!reads(fd, 5000, 0, 0)) atomic_fetch_add(&bad_reads, 1);
    close(fd);
  }
  return NULL;
}

static int child(int keep, int position, int n) {
  alarm(10);
  int good = reads(position, 50, 100, 0);
  good &= preads(keep, 60000, 1000 + n, 0);
  int fd = open("data", O_RDONLY);
  good &= reads(fd, 5000, 0, 0) && lseek(fd, -300, SEEK_END) == kSize - 300;
  good &= reads(fd, 300, kSize - 300, 0) && read(fd, &good, 1) == 0;
  good &= close(fd) == 0 && close(keep) == 0 && close(keep) == -1;
  return good;
}

int main(void) {
  make_file("data", kSize, 0);
  int keep = open("data", O_RDONLY);
  pthread_t threads[4];
  for (uintptr_t i = 0; i < 4; ++i) {
    pthread_create(&threads[i], NULL, reader, (void*)(i + 1));
  }
  int failed = 0;
  for (int i = 0; i < kForks; ++i) {
    int position = open("data", O_RDONLY);
    CHECK(reads(position, 100, 0, 0));
    pid_t pid = fork();
    if (pid == 0) _exit(!child(keep, position, i));
    int status = -1;
    waitpid(pid, &status, 0);
    CHECK(reads(position, 10, 150, 0) && close(position) == 0);
    failed += status != 0;
    if (failed > 3) break;
  }
  atomic_store(&stop, 1);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  CHECK(failed == 0);
  CHECK(atomic_load(&bad_reads) == 0);
  return verdict();
}
