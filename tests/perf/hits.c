/* SPDX-License-Identifier: MIT */
/* Counts of instructions repeat where times do not, so a hit that has become
 * dearer shows here at once. This program makes as many hits as it is told;
 * hit_instructions.py counts, and takes the difference of two runs.
 *
 *   hits pread|read BYTES COUNT FILE */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kSpan = 1 << 20 };
static char buffer[kSpan];

static int read_all(int fd) {
  for (off_t at = 0; at < kSpan; at += 4096) {
    if (pread(fd, buffer, 4096, at) != 4096) return 0;
  }
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const int sequential = strcmp(argv[1], "read") == 0;
  const size_t size = strtoul(argv[2], NULL, 0);
  const long count = strtol(argv[3], NULL, 0);
  const int fd = open(argv[4], O_RDONLY);
  /* Twice: the first pass meets readahead marks. */
  if (fd < 0 || !read_all(fd) || !read_all(fd)) return 3;
  off_t at = 0;
  for (long i = 0; i < count; ++i) {
    const ssize_t got =
        sequential ? read(fd, buffer, size) : pread(fd, buffer, size, at);
    if (got != (ssize_t)size) return 4;
    at += size;
    if (at < kSpan) continue;
    at = 0;
    if (sequential) lseek(fd, 0, SEEK_SET);
  }
  return 0;
}
