/* SPDX-License-Identifier: MIT */
/* Buffers of one read may overlap: the later one wins, and memory is then not
 * what the file is, which is no reason to give the file up. */
#include "../victim.h"

#include <sys/uio.h>

int main(void) {
  static char memory[200];
  struct iovec overlapping[3] = {
      {memory, 50}, {memory + 100, 9}, {memory + 40, 50}};
  make_file("data", 1 << 20, 0);
  int fd = open("data", O_RDONLY);
  CHECK(preads(fd, 4096, 0, 0));
  for (uint64_t at = 0; at < 300; at += 77) {
    CHECK(preadv(fd, overlapping, 3, (off_t)at) == 109);
    CHECK(same_bytes(memory, 40, at, 0));
    CHECK(same_bytes(memory + 40, 50, at + 59, 0));
    CHECK(same_bytes(memory + 100, 9, at + 50, 0));
  }
  return verdict();
}
