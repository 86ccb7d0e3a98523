/* SPDX-License-Identifier: MIT */
/* The array of buffers may lie in the memory that the read fills: the kernel
 * copies it first. */
#include "../victim.h"

#include <sys/syscall.h>
#include <sys/uio.h>

enum { kBuffers = 16, kEach = 128, kAll = kBuffers * kEach };

static _Alignas(16) unsigned char memory[kAll + 512];

/* The array at memory + place, which is part of every other buffer. */
static struct iovec* array_at(size_t place) {
  struct iovec* iov = (struct iovec*)(memory + place);
  for (int i = 0; i < kBuffers; ++i) {
    iov[i] = (struct iovec){memory + i * kEach, kEach};
  }
  return iov;
}

int main(void) {
  make_file("data", 1 << 20, 0);
  int fd = open("data", O_RDONLY);
  CHECK(preads(fd, 4096, 0, 0) && preads(fd, 4096, 4096, 0));
  for (size_t place = 0; place <= kAll; place += 512) {
    CHECK(preadv(fd, array_at(place), kBuffers, 100) == kAll);
    CHECK(same_bytes(memory, kAll, 100, 0));
    CHECK(preadv2(fd, array_at(place), kBuffers, 200, 0) == kAll);
    CHECK(same_bytes(memory, kAll, 200, 0));
    CHECK(lseek(fd, 300, SEEK_SET) == 300);
    CHECK(readv(fd, array_at(place), kBuffers) == kAll);
    CHECK(same_bytes(memory, kAll, 300, 0));
    CHECK(syscall(SYS_readv, fd, array_at(place), kBuffers) == kAll);
    CHECK(same_bytes(memory, kAll, 300 + kAll, 0));
    CHECK(lseek(fd, 0, SEEK_CUR) == 300 + 2 * kAll);
  }
  return verdict();
}
