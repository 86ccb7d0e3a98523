/* SPDX-License-Identifier: MIT */
/* In a chroot without /proc a file cannot be reopened by its number: reads
 * must then be the kernel's, with the same results. Needs root. */
#include "../victim.h"

#include <sys/stat.h>
#include <sys/wait.h>

static void reading(int before) {
  int fd = open("data", O_RDONLY);
  CHECK(access("/proc/self", F_OK) == -1);
  for (int i = 0; i < 20; ++i) {
    CHECK(reads(fd, 5000, (uint64_t)i * 5000, 0));
    CHECK(preads(fd, 60000, (uint64_t)i * 99991, 0));
    CHECK(preads(before, 50000, (uint64_t)i * 1111, 7));
  }
  CHECK(reads(before, 500, 40, 7));
  posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED);
  CHECK(preads(fd, 60000, 2 << 20, 0));
  CHECK(close(fd) == 0 && close(before) == 0);
}

int main(void) {
  mkdir("jail", 0755);
  make_file("jail/data", 4 << 20, 0);
  make_file("outside", 1 << 20, 7);
  int unread = open("outside", O_RDONLY);
  if (lseek(unread, 40, SEEK_SET) != 40) return 2;
  if (chroot("jail") != 0 || chdir("/") != 0) {
    puts("chroot is refused here");
    return 77;
  }
  reading(unread);
  return verdict();
}
