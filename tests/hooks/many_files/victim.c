/* SPDX-License-Identifier: MIT */
/* Reads more files, one after the other, than a process may have open: each is
 * cached though the ones before have only just been closed. */
#include "../victim.h"

#include <sys/resource.h>

enum { kFiles = 1000, kOpen = 300, kSize = 1 << 16 };

int main(void) {
  struct rlimit limit = {kOpen, kOpen};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return 2;
  for (unsigned i = 0; i < kFiles; ++i) {
    char path[16];
    snprintf(path, sizeof path, "data%u", i);
    make_file(path, kSize, i);
    int fd = open(path, O_RDONLY);
    CHECK(preads(fd, 4000, 100, i) && preads(fd, 4000, 100, i));
    CHECK(close(fd) == 0);
  }
  /* And now with all the numbers in use. */
  make_file("data", kSize, 0);
  for (int i = 0; i < kOpen; ++i) {
    int fd = open("data", O_RDONLY);
    if (fd < 0) break;
    CHECK(preads(fd, 4000, 200, 0));
  }
  closefrom(3); /* the statistics need one */
  return verdict();
}
