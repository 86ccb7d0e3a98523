/* SPDX-License-Identifier: MIT */
/* sendfile, splice and copy_file_range without an offset read at the file
 * position inside the kernel and move it; with one they leave it alone. */
#include "../victim.h"

#include <sys/sendfile.h>

static char got[4096];
static int out, channel[2];

static int arrived(size_t n, uint64_t at) {
  return read(channel[0], got, n) == (ssize_t)n && same_bytes(got, n, at, 0);
}
static int written(size_t n, uint64_t at) {
  int good = pread(out, got, n, 0) == (ssize_t)n && same_bytes(got, n, at, 0);
  return good && ftruncate(out, 0) == 0 && lseek(out, 0, SEEK_SET) == 0;
}

static void at_position(void) {
  int fd = open("a", O_RDONLY);
  CHECK(reads(fd, 100, 0, 0));
  CHECK(sendfile(out, fd, NULL, 50) == 50 && written(50, 100));
  CHECK(reads(fd, 10, 150, 0));
  close(fd);
  fd = open("a", O_RDONLY);
  CHECK(reads(fd, 200, 0, 0));
  CHECK(sendfile64(out, fd, NULL, 50) == 50 && written(50, 200));
  CHECK(reads(fd, 10, 250, 0));
  close(fd);
  fd = open("a", O_RDONLY);
  CHECK(reads(fd, 300, 0, 0));
  CHECK(splice(fd, NULL, channel[1], NULL, 50, 0) == 50 && arrived(50, 300));
  CHECK(reads(fd, 10, 350, 0));
  close(fd);
  fd = open("a", O_RDONLY);
  CHECK(reads(fd, 400, 0, 0));
  CHECK(copy_file_range(fd, NULL, out, NULL, 50, 0) == 50 && written(50, 400));
  CHECK(reads(fd, 10, 450, 0));
  close(fd);
}

static void at_offset(void) {
  int fd = open("a", O_RDONLY);
  off_t at = 5000;
  loff_t from = 6000;
  CHECK(reads(fd, 100, 0, 0));
  CHECK(sendfile(out, fd, &at, 50) == 50 && written(50, 5000) && at == 5050);
  CHECK(reads(fd, 10, 100, 0));
  CHECK(splice(fd, &from, channel[1], NULL, 50, 0) == 50 && from == 6050);
  CHECK(arrived(50, 6000) && reads(fd, 10, 110, 0));
  CHECK(copy_file_range(fd, &from, out, NULL, 50, 0) == 50);
  CHECK(written(50, 6050) && reads(fd, 10, 120, 0));
  close(fd);
}

static void refused(void) {
  CHECK(sendfile(out, -1, NULL, 1) == -1 && errno == EBADF);
  CHECK(splice(-1, NULL, -1, NULL, 1, 0) == -1 && errno == EBADF);
  CHECK(copy_file_range(-1, NULL, out, NULL, 1, 0) == -1 && errno == EBADF);
}

int main(void) {
  make_file("a", 1 << 20, 0);
  out = open("out", O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (pipe(channel) != 0) return 2;
  at_position();
  at_offset();
  refused();
  return verdict();
}
