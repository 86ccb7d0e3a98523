/* SPDX-License-Identifier: MIT */
/* Hooks of files, descriptors, advice and mappings. From victim.c. */
#pragma once

#include "trap.h"

#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

static void reads_and_seeks(void) {
  struct iovec parts[2] = {{got, 100}, {got + 100, 4000}};
  int fd = INSIDE(open("data", O_RDONLY));
  CHECK(INSIDE(read(fd, got, sizeof got)) == sizeof got);
  CHECK(INSIDE(__read(fd, got, 5000)) == 5000);
  CHECK(INSIDE(__read_chk(fd, got, 5000, sizeof got)) == 5000);
  CHECK(INSIDE(pread(fd, got, 5000, 1 << 20)) == 5000);
  CHECK(INSIDE(pread64(fd, got, 5000, 3 << 20)) == 5000);
  CHECK(INSIDE(__pread64(fd, got, 5000, 4 << 20)) == 5000);
  CHECK(INSIDE(__pread_chk(fd, got, 5000, 5, sizeof got)) == 5000);
  CHECK(INSIDE(__pread64_chk(fd, got, 5000, 6, sizeof got)) == 5000);
  CHECK(INSIDE(readv(fd, parts, 2)) == 4100);
  CHECK(INSIDE(preadv(fd, parts, 2, 9000)) == 4100);
  CHECK(INSIDE(preadv64(fd, parts, 2, 9000)) == 4100);
  CHECK(INSIDE(preadv2(fd, parts, 2, 9000, 0)) == 4100);
  CHECK(INSIDE(preadv64v2(fd, parts, 2, 9000, 0)) == 4100);
  CHECK(INSIDE(lseek(fd, 7, SEEK_SET)) == 7);
  CHECK(INSIDE(lseek(fd, 7, SEEK_END)) > 7);
  CHECK(INSIDE(__lseek(fd, 9, SEEK_SET)) == 9);
  CHECK(INSIDE(lseek64(fd, 7, SEEK_DATA)) == 7);
  CHECK(INSIDE(pread(fd, got, sizeof got, 1 << 20)) == sizeof got);
  CHECK(INSIDE(syscall(SYS_pread64, fd, got, 99, 5)) == 99);
  CHECK(INSIDE(close(fd)) == 0);
}

static void advice(void) {
  int fd = INSIDE(open("data", O_RDONLY));
  CHECK(INSIDE(posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED)) == 0);
  CHECK(INSIDE(posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM)) == 0);
  CHECK(INSIDE(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED)) == 0);
  CHECK(INSIDE(posix_fadvise64(fd, 0, 0, POSIX_FADV_SEQUENTIAL)) == 0);
  CHECK(INSIDE(readahead(fd, 1 << 20, 1 << 20)) == 0);
  CHECK(INSIDE(pread(fd, got, sizeof got, 1 << 20)) == sizeof got);
  char* at = (char*)INSIDE(mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE, fd, 0));
  char* high =
      (char*)INSIDE(mmap64(NULL, 1 << 20, PROT_READ, MAP_SHARED, fd, 1 << 20));
  CHECK(same_bytes(at, 5000, 0, 0) && same_bytes(high, 5000, 1 << 20, 0));
  CHECK(INSIDE(madvise(at, 1 << 20, MADV_WILLNEED)) == 0);
  CHECK(INSIDE(posix_madvise(at, 1 << 20, POSIX_MADV_WILLNEED)) == 0);
  at = (char*)INSIDE(mremap(at, 1 << 20, 2 << 20, MREMAP_MAYMOVE));
  CHECK(same_bytes(at, 5000, 0, 0));
  CHECK(INSIDE(munmap(at, 2 << 20)) == 0);
  CHECK(INSIDE(munmap(high, 1 << 20)) == 0);
  CHECK(INSIDE(close(fd)) == 0);
}

/* Opened, read and closed by each pair of names. */
static void opened(int fd) {
  CHECK(fd >= 0 && INSIDE(read(fd, got, 5000)) == 5000);
  CHECK(INSIDE(__close(fd)) == 0);
}
static void opens(void) {
  opened(INSIDE(open64("data", O_RDONLY)));
  opened(INSIDE(openat64(AT_FDCWD, "data", O_RDONLY)));
  opened(INSIDE(__open("data", O_RDONLY)));
  opened(INSIDE(__open64("data", O_RDONLY)));
  opened(INSIDE(__open_2("data", O_RDONLY)));
  opened(INSIDE(__open64_2("data", O_RDONLY)));
  opened(INSIDE(__openat_2(AT_FDCWD, "data", O_RDONLY)));
  opened(INSIDE(__openat64_2(AT_FDCWD, "data", O_RDONLY)));
  CHECK(close(by_openat2("data")) == 0); /* looks it up, which allocates */
  opened(INSIDE(by_openat2("data")));
  CHECK(INSIDE(close(INSIDE(creat64("new", 0600)))) == 0);
  CHECK(INSIDE(open("absent", O_RDONLY)) == -1);
}

static void locks(int fd) {
  struct flock whole = {.l_type = F_RDLCK, .l_whence = SEEK_CUR};
  CHECK(INSIDE(fcntl(fd, F_SETLK, &whole)) == 0);
  CHECK(INSIDE(fcntl64(fd, F_GETLK, &whole)) == 0);
  CHECK(INSIDE(__fcntl(fd, F_OFD_SETLK, &whole)) == 0);
  CHECK(INSIDE(lockf(fd, F_TEST, 100)) == 0);
  CHECK(INSIDE(lockf64(fd, F_ULOCK, 0)) == 0);
  CHECK(INSIDE(fcntl(fd, F_SETLEASE, F_RDLCK)) == 0);
  CHECK(INSIDE(fcntl(fd, F_GETLEASE)) == F_RDLCK);
  CHECK(INSIDE(fcntl(fd, F_SETLEASE, F_UNLCK)) == 0);
}

static void numbers(void) {
  int behind = 0;
  int fd = INSIDE(openat(AT_FDCWD, "data", O_RDONLY));
  int twin = INSIDE(dup(fd));
  CHECK(INSIDE(dup2(fd, 50)) == 50 && INSIDE(dup3(fd, 51, 0)) == 51);
  CHECK(INSIDE(__dup2(fd, 53)) == 53);
  CHECK(INSIDE(fcntl(fd, F_DUPFD, 54)) == 54);
  CHECK(INSIDE(read(twin, got, 100)) == 100);
  CHECK(INSIDE(ioctl(twin, FIONREAD, &behind)) == 0 && behind > 100);
  CHECK(INSIDE(close(twin)) == 0);
  CHECK(INSIDE(close_range(50, 60, 0)) == 0);
  int made = INSIDE(creat("new", 0600)), pipes[2];
  CHECK(INSIDE(sendfile(made, fd, NULL, 5000)) == 5000);
  CHECK(INSIDE(sendfile64(made, fd, NULL, 5000)) == 5000);
  CHECK(INSIDE(copy_file_range(fd, NULL, made, NULL, 5000, 0)) == 5000);
  CHECK(pipe(pipes) == 0);
  CHECK(INSIDE(splice(fd, NULL, pipes[1], NULL, 4096, 0)) == 4096);
  CHECK(INSIDE(close(made)) == 0);
  *armed = kTrap;
  closefrom(40);
  *armed = 0;
  CHECK(INSIDE(read(pipes[0], got, 4096)) == 4096);
  close(pipes[0]);
  close(pipes[1]);
  CHECK(INSIDE(close(fd)) == 0);
  fd = open("data", O_RDONLY);
  CHECK(INSIDE(read(fd, got, 100)) == 100);
  locks(fd);
  close(fd);
}
