/* SPDX-License-Identifier: MIT */
/* Duplicates share one position, separate opens do not, and the position goes
 * wherever the kernel would have it: over dup in all its forms, seeks, reads of
 * every kind, the end of the file, and after one of the duplicates is gone. */
#include "../victim.h"

#include <sys/syscall.h>
#include <sys/uio.h>

enum { kSize = 300001 };

static int duplicate(int how, int fd) {
  switch (how) {
    case 0:
      return dup(fd);
    case 1:
      return dup2(fd, 60);
    case 2:
      return dup3(fd, 61, O_CLOEXEC);
    case 3:
      return fcntl(fd, F_DUPFD, 70);
    case 4:
      return fcntl(fd, F_DUPFD_CLOEXEC, 80);
    case 5:
      return (int)syscall(SYS_dup, fd);
    case 6:
      return (int)syscall(SYS_dup3, fd, 62, 0);
    case 7:
      return (int)syscall(SYS_fcntl, fd, F_DUPFD, 90);
    default: {
      int taken = open("b", O_RDONLY);
      return how == 8 ? dup2(fd, taken)
                      : (int)syscall(SYS_dup3, fd, taken, O_CLOEXEC);
    }
  }
}
enum { kWays = 10 };

static void one_way(int how) {
  int fd = open("a", O_RDONLY);
  CHECK(reads(fd, 100, 0, 0));
  int twin = duplicate(how, fd);
  CHECK(twin >= 0 && twin != fd);
  CHECK(reads(twin, 50, 100, 0) && reads(fd, 50, 150, 0));
  CHECK(lseek(twin, 0, SEEK_CUR) == 200);
  CHECK(lseek(fd, 7777, SEEK_SET) == 7777 && reads(twin, 3, 7777, 0));
  CHECK(preads(twin, 5000, 60000, 0) && lseek(fd, 0, SEEK_CUR) == 7780);
  int separate = open("a", O_RDONLY);
  CHECK(reads(separate, 10, 0, 0) && lseek(fd, 0, SEEK_CUR) == 7780);
  CHECK(close(separate) == 0 && close(fd) == 0);
  CHECK(reads(twin, 20, 7780, 0));
  CHECK(lseek(twin, -10, SEEK_END) == kSize - 10);
  char more[100];
  CHECK(read(twin, more, 100) == 10 && read(twin, more, 100) == 0);
  CHECK(same_bytes(more, 10, kSize - 10, 0));
  CHECK(lseek(twin, 0, SEEK_CUR) == kSize);
  CHECK(close(twin) == 0 && close(twin) == -1 && errno == EBADF);
}

/* O_DIRECT is the description's: who sets it by one number has set it for all,
 * and what the kernel then refuses is refused. */
static void direct(int how, int by_number) {
  char bytes[100];
  int truth = open("a", O_RDONLY | O_DIRECT);
  if (truth < 0) return; /* not on this file system */
  ssize_t wanted = pread(truth, bytes, sizeof bytes, 1);
  int fd = open("a", O_RDONLY);
  for (int i = 0; i < 3; ++i) CHECK(preads(fd, 100, 1, 0));
  int twin = duplicate(how, fd);
  CHECK((by_number ? syscall(SYS_fcntl, twin, F_SETFL, O_DIRECT)
                   : fcntl(twin, F_SETFL, O_DIRECT)) == 0);
  CHECK(pread(fd, bytes, sizeof bytes, 1) == wanted);
  CHECK(pread(twin, bytes, sizeof bytes, 1) == wanted);
  close(truth);
  close(fd);
  close(twin);
}

static void vectors(void) {
  int fd = open("a", O_RDONLY), twin = dup(fd);
  char x[300];
  struct iovec parts[3] = {{x, 10}, {x + 10, 200}, {x + 210, 90}};
  CHECK(readv(fd, parts, 3) == 300 && same_bytes(x, 300, 0, 0));
  CHECK(preadv(twin, parts, 2, 5000) == 210 && same_bytes(x, 210, 5000, 0));
  CHECK(preadv2(twin, parts, 3, -1, 0) == 300 && same_bytes(x, 300, 300, 0));
  CHECK(preadv2(fd, parts, 1, 9, 0) == 10 && same_bytes(x, 10, 9, 0));
  CHECK(lseek(fd, 0, SEEK_CUR) == 600);
  close(fd);
  close(twin);
}

static void seeks(void) {
  int fd = open("a", O_RDONLY);
  CHECK(lseek(fd, -1, SEEK_SET) == -1 && errno == EINVAL);
  CHECK(lseek(fd, 0, 99) == -1 && errno == EINVAL);
  CHECK(lseek(fd, 10, SEEK_END) == kSize + 10);
  char c;
  CHECK(read(fd, &c, 1) == 0 && lseek(fd, 0, SEEK_CUR) == kSize + 10);
  CHECK(lseek(fd, 5, SEEK_DATA) == 5 && lseek(fd, 5, SEEK_HOLE) == kSize);
  CHECK(lseek(fd, kSize, SEEK_DATA) == -1 && errno == ENXIO);
  CHECK(lseek(fd, INT64_MAX, SEEK_CUR) == -1);
  CHECK(lseek(fd, 0, SEEK_CUR) == kSize);
  CHECK(dup2(fd, fd) == fd && lseek(fd, 0, SEEK_CUR) == kSize);
  CHECK(dup3(fd, fd, 0) == -1 && errno == EINVAL);
  CHECK(dup(-1) == -1 && errno == EBADF && dup2(fd, -1) == -1);
  CHECK(dup2(999, fd) == -1 && errno == EBADF);
  CHECK(lseek(fd, 0, SEEK_SET) == 0 && reads(fd, 9, 0, 0));
  close(fd);
}

int main(void) {
  make_file("a", kSize, 0);
  make_file("b", 1 << 17, 7);
  for (int how = 0; how < kWays; ++how) one_way(how);
  for (int how = 0; how < 2 * kWays; ++how) direct(how / 2, how % 2);
  vectors();
  seeks();
  return verdict();
}
