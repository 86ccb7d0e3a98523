/* SPDX-License-Identifier: MIT */
/* Preload libraries come in stacks: what a library behind ours does by
 * syscall(2) comes back to us, once, and positions stay right although both
 * ways are mixed. */
#include "../victim.h"

static void once(void) {
  char byte;
  int fd = open("data", O_RDONLY);
  CHECK(reads(fd, 100, 0, 0) && preads(fd, 9000, 70000, 0));
  int twin = dup(fd);
  CHECK(reads(twin, 10, 100, 0) && reads(fd, 10, 110, 0));
  CHECK(dup2(fd, 50) == 50 && reads(50, 10, 120, 0));
  CHECK(lseek(fd, 500, SEEK_SET) == 500 && reads(twin, 10, 500, 0));
  CHECK(close(fd) == 0 && read(fd, &byte, 1) == -1 && errno == EBADF);
  CHECK(open("other", O_RDONLY) == fd && preads(fd, 9000, 70000, 7));
  CHECK(reads(fd, 100, 0, 7) && reads(50, 10, 510, 0));
  CHECK(dup2(fd, 50) == 50 && reads(50, 10, 100, 7));
  CHECK(close(fd) == 0 && close(twin) == 0 && close(50) == 0);
}

int main(void) {
  make_file("data", 1 << 20, 0);
  make_file("other", 1 << 20, 7);
  for (int i = 0; i < 3; ++i) once();
  return verdict();
}
