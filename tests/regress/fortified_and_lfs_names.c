// SPDX-License-Identifier: MIT
// A descriptor may be opened by one name of a call and read by another.
// Why: with -D_FORTIFY_SOURCE or -D_FILE_OFFSET_BITS=64 programs call
// __open_2, __pread64_chk, fopen64 and so on; an interposer that misses some
// sees half of a descriptor's life. Between the reads the file changes.
// (Darshan 253, buildsome 94, DAOS 13200, tebako 443.)
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

extern int __open_2(const char*, int), __open64_2(const char*, int);
extern int __openat_2(int, const char*, int),
    __openat64_2(int, const char*, int);
extern ssize_t __read_chk(int, void*, size_t, size_t);
extern ssize_t __pread_chk(int, void*, size_t, off_t, size_t);
extern ssize_t __pread64_chk(int, void*, size_t, off64_t, size_t);
extern size_t __fread_chk(void*, size_t, size_t, size_t, FILE*);

enum { kSize = 80000, kRoom = 90000 };
static char truth[kSize], got[kRoom];
static char name[] = "names-XXXXXX";
static const char* opened_by;
static int problems;

static void same(const char* how, ssize_t n, ssize_t want, off_t at) {
  if (n != want || (n > 0 && memcmp(got, truth + at, n))) {
    printf("problem: opened by %s, %s at %ld: %zd bytes, want %zd\n", opened_by,
           how, (long)at, n, want);
    ++problems;
  }
  memset(got, 0x55, sizeof got);
}

// Another descriptor changes one byte; the next read has to show it.
static void change(off_t at) {
  int fd = open(name, O_WRONLY);
  truth[at] = (char)(truth[at] * 7 + 1);
  if (pwrite(fd, truth + at, 1, at) != 1) exit(2);
  close(fd);
}

static void read_positioned(int fd) {
  change(5000);
  same("pread", pread(fd, got, 10000, 4500), 10000, 4500);
  same("pread64", pread64(fd, got, 10000, 4501), 10000, 4501);
  change(5001);
  same("__pread_chk", __pread_chk(fd, got, 9999, 1, kRoom), 9999, 1);
  same("__pread64_chk", __pread64_chk(fd, got, 9999, 2, kRoom), 9999, 2);
  change(5002);
  struct iovec v[] = {{got, 1}, {got + 1, 5000}, {got + 5001, 99}};
  same("preadv", preadv(fd, v, 3, 33), 5100, 33);
  same("preadv64", preadv64(fd, v, 3, 34), 5100, 34);
  change(100);
  same("preadv2", preadv2(fd, v, 3, 35, 0), 5100, 35);
  same("preadv64v2", preadv64v2(fd, v, 3, 36, 0), 5100, 36);
}

static void read_in_sequence(int fd) {
  lseek(fd, 1000, SEEK_SET);
  same("read", read(fd, got, 3000), 3000, 1000);
  change(4100);
  same("__read_chk", __read_chk(fd, got, 3000, kRoom), 3000, 4000);
  struct iovec v[] = {{got, 10}, {got + 10, 500}};
  same("readv", readv(fd, v, 2), 510, 7000);
  same("preadv2 at -1", preadv2(fd, v, 2, -1, 0), 510, 7510);
  same("preadv64v2 at -1", preadv64v2(fd, v, 2, -1, 0), 510, 8020);
  lseek64(fd, -123, SEEK_END);
  same("read near the end", read(fd, got, 3000), 123, kSize - 123);
  same("read at the end", read(fd, got, 3000), 0, 0);
}

static void try(const char* how, int fd) {
  opened_by = how;
  if (fd < 0) {
    printf("problem: %s failed\n", how);
    ++problems;
    return;
  }
  for (int i = 0; i < 2; ++i) read_positioned(fd), read_in_sequence(fd);
}

static void try_streams(void) {
  FILE* f = fopen64(name, "r");
  FILE* g = fopen(name, "r");
  FILE* h = fdopen(open64(name, O_RDONLY), "r");
  opened_by = "a stream";
  same("fread", fread(got, 1, 70000, f), 70000, 0);
  fseeko64(g, 54321, SEEK_SET);
  same("__fread_chk", __fread_chk(got, kRoom, 1, 777, g), 777, 54321);
  fseek(h, -60, SEEK_END);
  same("fread_unlocked", fread_unlocked(got, 1, 777, h), 60, kSize - 60);
  fclose(f), fclose(g), fclose(h);
  f = fopen64(name, "r");
  try("fileno of fopen64", fileno(f));
  fclose(f);
}

int main(void) {
  for (int i = 0; i < kSize; ++i) truth[i] = (char)(i * 37 >> 4);
  int created = mkstemp(name);
  if (write(created, truth, kSize) != kSize || close(created)) return 2;
  volatile int read_only = O_RDONLY;  // keeps the compiler from choosing
  int flags = read_only, plain = open(name, flags);
  try("__open_2", __open_2(name, flags));
  try("__open64_2", __open64_2(name, flags));
  try("__openat_2", __openat_2(AT_FDCWD, name, flags));
  try("__openat64_2", __openat64_2(AT_FDCWD, name, flags));
  try("open", plain);
  try("open64", open64(name, flags));
  try("openat", openat(AT_FDCWD, name, flags));
  try("openat64", openat64(AT_FDCWD, name, flags));
  try("dup", dup(plain));
  try("dup3", dup3(plain, 90, O_CLOEXEC));
  try("F_DUPFD", fcntl(plain, F_DUPFD, 150));
  try("fcntl64 F_DUPFD_CLOEXEC", fcntl64(plain, F_DUPFD_CLOEXEC, 170));
  try_streams();
  unlink(name);
  puts(problems ? "FAIL" : "PASS");
  return problems != 0;
}
