/* SPDX-License-Identifier: MIT */
/* A program may have any amount of thread-local data, and a preload library's
 * own then lies far from the thread pointer: every thread must reach it, those
 * of the library included. */
#include "../victim.h"

#include <pthread.h>

static __thread unsigned char large[300 << 10];

static void* reading(void* argument) {
  int fd = open("data", O_RDONLY);
  for (int i = 0; i < 20; ++i) {
    ssize_t n = pread(fd, large, sizeof large, 4000 * i);
    CHECK(n == sizeof large && same_bytes(large, (size_t)n, 4000 * i, 0));
  }
  close(fd);
  return argument;
}

int main(void) {
  pthread_t thread;
  make_file("data", 1 << 20, 0);
  reading(NULL);
  pthread_create(&thread, NULL, reading, NULL);
  pthread_join(thread, NULL);
  return verdict();
}
