// SPDX-License-Identifier: MIT
// Descriptors with high numbers, and very many of them, behave as low ones.
// Why: interposers kept tables for 1024 or 65536 numbers, and what lay beyond
// was lost, or closed, or crashed. (pmemfile 377.)
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { kSize = 150000, kMany = 12000 };
static char truth[kSize];
static int problems;

static void problem(const char* what, int fd, long got) {
  printf("problem: %s, descriptor %d: %ld, %s\n", what, fd, got,
         strerror(errno));
  ++problems;
}

static void reads_right(const char* what, int fd) {
  char got[6000];
  off_t at = 54321;
  if (lseek(fd, at, SEEK_SET) != at) problem(what, fd, -1);
  ssize_t n = read(fd, got, sizeof got);
  if (n != sizeof got || memcmp(got, truth + at, n)) problem(what, fd, n);
  if (lseek(fd, 0, SEEK_CUR) != at + n) problem("position", fd, n);
  n = pread(fd, got, 500, kSize - 77);
  if (n != 77 || memcmp(got, truth + kSize - 77, n)) problem(what, fd, n);
}

// As many as we may have; at most a million.
static int raise_limit(void) {
  struct rlimit l;
  getrlimit(RLIMIT_NOFILE, &l);
  struct rlimit million = {1 << 20, 1 << 20};
  if (setrlimit(RLIMIT_NOFILE, &million) != 0) {
    l.rlim_cur = l.rlim_max;
    setrlimit(RLIMIT_NOFILE, &l);
  }
  getrlimit(RLIMIT_NOFILE, &l);
  return l.rlim_cur > 1 << 20 ? 1 << 20 : (int)l.rlim_cur;
}

static void duplicates(int fd, int top) {
  const int wanted[] = {255,   256,    1000,   1023,    1024,   1025,
                        4095,  4096,   16383,  16384,   65535,  65536,
                        65537, 262143, 524288, top - 2, top - 1};
  const size_t count = sizeof wanted / sizeof *wanted;
  for (size_t i = 0; i < count; ++i) {
    if (wanted[i] >= top) continue;
    if (dup2(fd, wanted[i]) != wanted[i]) problem("dup2", wanted[i], -1);
    reads_right("dup2", wanted[i]);
  }
  int high = fcntl(fd, F_DUPFD, top / 2);
  if (high < top / 2) problem("F_DUPFD", high, top / 2);
  reads_right("F_DUPFD", high);
  if (dup2(fd, top) != -1 || errno != EBADF) problem("dup2 to limit", top, 0);
  close(fd);  // the others live on, with one position between them
  for (size_t i = 0; i < count; ++i)
    if (wanted[i] < top) reads_right("after close of the first", wanted[i]);
  lseek(wanted[0], 999, SEEK_SET);
  if (lseek(top - 1, 0, SEEK_CUR) != 999) problem("shared position", top, 0);
  close(top - 1);
  char byte;
  if (pread(top - 1, &byte, 1, 0) != -1 || errno != EBADF)
    problem("read of a closed number", top - 1, 0);
}

static void very_many(const char* name, int top) {
  static int fds[kMany];
  int count = 0, most = top - 200 < kMany ? top - 200 : kMany;
  while (count < most && (fds[count] = open(name, O_RDONLY)) >= 0) ++count;
  if (count < most) problem("open", count, most);
  for (int i = 0; i < count; i += 997) reads_right("one of many", fds[i]);
  reads_right("the last of many", fds[count - 1]);
  for (int i = 0; i < count; ++i)
    if (close(fds[i])) problem("close", fds[i], -1);
}

int main(void) {
  int top = raise_limit();
  char name[] = "high-XXXXXX";
  for (int i = 0; i < kSize; ++i) truth[i] = (char)(i * 13 >> 3);
  int created = mkstemp(name);
  if (write(created, truth, kSize) != kSize || close(created)) return 2;
  int fd = open(name, O_RDONLY);
  reads_right("plain", fd);
  duplicates(fd, top);
  very_many(name, top);
  unlink(name);
  printf("numbers up to %d\n%s\n", top - 1, problems ? "FAIL" : "PASS");
  return problems != 0;
}
