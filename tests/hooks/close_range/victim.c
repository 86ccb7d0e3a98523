/* SPDX-License-Identifier: MIT */
/* close_range and closefrom take descriptors away while other threads read
 * from them, and the numbers come back for another file: a reader may see
 * either file or EBADF, never a mixture, and nothing of the library may be
 * among what was closed. */
#include "../victim.h"

#include <linux/close_range.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

enum { kSize = 2 << 20, kFirst = 40, kCount = 8, kRounds = 400 };
static atomic_int stop, mixed;
static atomic_long served;

static void* reader(void* seed) {
  unsigned char got[3000];
  uint64_t x = (uintptr_t)seed;
  while (!atomic_load(&stop)) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    uint64_t at = (x >> 33) % (kSize - sizeof got);
    ssize_t n = pread(kFirst + (x >> 20) % kCount, got, sizeof got, at);
    if (n < 0) {
      if (errno != EBADF) atomic_store(&mixed, errno);
      continue;
    }
    if (n != sizeof got ||
        (!same_bytes(got, n, at, 0) && !same_bytes(got, n, at, 7))) {
      atomic_store(&mixed, -1);
    }
    atomic_fetch_add(&served, 1);
  }
  return NULL;
}

static void put(const char* path, int number) {
  int fd = open(path, O_RDONLY);
  if (fd != number && dup2(fd, number) == number) close(fd);
}

static void close_all(int how) {
  if (how == 0) close_range(kFirst, kFirst + kCount - 1, 0);
  if (how == 1) close_range(3, ~0u, 0);
  if (how == 2) closefrom(3);
  if (how == 3)
    for (int i = 3; i < 64; ++i) syscall(SYS_close, i);
}

int main(void) {
  make_file("a", kSize, 0);
  make_file("b", kSize, 7);
  pthread_t threads[3];
  for (uintptr_t i = 0; i < 3; ++i) {
    pthread_create(&threads[i], NULL, reader, (void*)(i + 1));
  }
  for (int round = 0; round < kRounds; ++round) {
    int b = round & 1;
    for (int i = 0; i < kCount; ++i) put(b ? "b" : "a", kFirst + i);
    for (int i = 0; i < kCount; ++i) {
      CHECK(preads(kFirst + i, 4000, 5000, b ? 7 : 0));
      CHECK(reads(kFirst + i, 4000, 0, b ? 7 : 0));
    }
    close_all(round / 2 % 4);
    errno = 0;
    CHECK(pread(kFirst, &b, 1, 0) == -1 && errno == EBADF);
    if (wrong_count) break;
  }
  atomic_store(&stop, 1);
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  CHECK(atomic_load(&mixed) == 0);
  CHECK(atomic_load(&served) > 100);
  CHECK(close_range(9, 3, 0) == -1 && errno == EINVAL);
  /* Marked, not closed: still ours. */
  put("a", kFirst);
  CHECK(close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) == 0);
  CHECK(reads(kFirst, 100, 0, 0));
  CHECK(fcntl(kFirst, F_GETFD) == FD_CLOEXEC);
  return verdict();
}
