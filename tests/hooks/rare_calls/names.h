/* SPDX-License-Identifier: MIT */
/* libc's other names of calls on files and sockets. From victim.c. */
#pragma once

#include "show.h"

#include <sys/resource.h>
#include <sys/stat.h>

static void opens(void) {
  int (*const names[])(const char*, int, ...) = {__open, __open64};
  for (int i = 0; i < 2; ++i) {
    int fd;
    SHOW(fd = names[i]("data", O_RDONLY));
    SHOW(__read(fd, got, 5000));
    SHOW(__close(fd));
    SHOW(names[i]("absent", O_RDONLY));
    SHOW(names[i](NULL, O_RDONLY));
    SHOW(names[i]("data", O_RDONLY | O_DIRECTORY));
    SHOW(fd = names[i]("made", O_RDWR | O_CREAT | O_EXCL, 0640));
    struct stat st;
    CHECK(fstat(fd, &st) == 0);
    SHOW(st.st_mode);
    SHOW(__write(fd, "abc", 3));
    SHOW(__pread64(fd, got, 9, 1));
    SHOW(names[i]("made", O_RDWR | O_CREAT | O_EXCL, 0640));
    SHOW(__close(fd));
    SHOW(unlink("made"));
  }
}

static void moves(void) {
  int fd = cached();
  SHOW(__read(fd, got, 3000));
  SHOW(read(fd, got, 3000));
  SHOW(__lseek(fd, 0, SEEK_CUR));
  SHOW(__lseek(fd, -100, SEEK_CUR));
  SHOW(__read(fd, got, 100));
  SHOW(__lseek(fd, -1, SEEK_SET));
  SHOW(__lseek(fd, 0, 99));
  SHOW(__lseek(fd, -10, SEEK_END));
  SHOW(__read(fd, got, 100));
  SHOW(__read(fd, got, 100));
  SHOW(__lseek(fd, 9, SEEK_DATA));
  SHOW(__read(fd, NULL, 100));
  SHOW(__read(fd, (void*)8, 100));
  SHOW(__read(fd, got, 0));
  SHOW(__pread64(fd, got, 5000, 4095));
  SHOW(__pread64(fd, got, 5000, -1));
  SHOW(__pread64(fd, got, 5000, (off64_t)1 << 40));
  SHOW(__pread64(fd, NULL, 1, 0));
  SHOW(__lseek(fd, 0, SEEK_CUR));
  SHOW(__write(fd, "x", 1));
  SHOW(__close(fd));
  SHOW(__close(fd));
  SHOW(__read(fd, got, 1));
  SHOW(__pread64(fd, got, 1, 0));
  SHOW(__lseek(fd, 0, SEEK_CUR));
  SHOW(__write(fd, "x", 1));
  SHOW(__read(-1, got, 1));
  SHOW(__close(-1));
}

static void numbers(void) {
  int fd = cached(), other = cached();
  SHOW(__dup2(fd, 50));
  SHOW(__read(50, got, 100));
  SHOW(__lseek(fd, 0, SEEK_CUR));
  SHOW(__dup2(fd, other)); /* onto one that is cached itself */
  SHOW(__lseek(other, 0, SEEK_CUR));
  SHOW(__read(other, got, 100));
  SHOW(__read(fd, got, 100));
  SHOW(__dup2(fd, fd));
  SHOW(__dup2(-1, 51));
  SHOW(__dup2(fd, -1));
  SHOW(__dup2(99, 99));
  SHOW(__fcntl(fd, F_DUPFD, 60));
  SHOW(__fcntl(fd, F_DUPFD_CLOEXEC, 60));
  SHOW(__read(60, got, 100));
  SHOW(__fcntl(61, F_GETFD));
  SHOW(__fcntl(fd, F_GETFL));
  SHOW(__fcntl(fd, F_SETFD, FD_CLOEXEC));
  SHOW(__fcntl(fd, F_DUPFD, -1));
  SHOW(__fcntl(fd, 9999, 0));
  SHOW(__fcntl(-1, F_GETFL));
  SHOW(__close(50));
  SHOW(__close(60));
  SHOW(__close(61));
  SHOW(__close(other));
  SHOW(__read(fd, got, 100));
  SHOW(__close(fd));
}

/* Where another process has written it as its own: bytes 250 to 350. */
static void holding(void (*body)(int fd)) {
  int fd = cached(), ready[2], end[2];
  char byte;
  CHECK(pipe(ready) == 0 && pipe(end) == 0);
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    int own = open("locked", O_RDWR);
    close(end[1]);
    int held = lseek(own, 250, SEEK_SET) == 250 && lockf(own, F_LOCK, 100) == 0;
    if (write(ready[1], "r", 1) != 1) _exit(2);
    _exit(read(end[0], &byte, 1) == 0 && held ? 0 : 1);
  }
  CHECK(read(ready[0], &byte, 1) == 1);
  close(fd);
  fd = open("locked", O_RDONLY);
  CHECK(reads(fd, 300, 0, 0) && preads(fd, 100, 0, 0));
  body(fd);
  CHECK(close(fd) == 0 && close(end[1]) == 0);
  int status = -1;
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  close(ready[0]);
  close(ready[1]);
  close(end[0]);
}

#define LOCKS_BY(name)                                     \
  static void locks_by_##name(int fd) {                    \
    SHOW(name(fd, F_TEST, 10)); /* from the position on */ \
    SHOW(name(fd, F_TEST, -10));                           \
    SHOW(name(fd, F_TEST, 0));                             \
    SHOW(name(fd, F_TLOCK, 10));                           \
    SHOW(name(fd, F_LOCK, 10));                            \
    SHOW(name(fd, F_ULOCK, 10));                           \
    SHOW(lseek(fd, 0, SEEK_CUR));                          \
    SHOW(lseek(fd, 350, SEEK_SET));                        \
    SHOW(name(fd, F_TEST, 10));                            \
    SHOW(name(fd, F_TEST, -10));                           \
    SHOW(name(fd, F_TEST, -1000));                         \
    SHOW(read(fd, got, 100));                              \
    SHOW(name(fd, F_TEST, 0));                             \
    SHOW(name(fd, 99, 10));                                \
    SHOW(name(-1, F_TEST, 10));                            \
    SHOW(read(fd, got, 100));                              \
  }
LOCKS_BY(lockf)
LOCKS_BY(lockf64)

static void locks_by_fcntl(int fd) {
  struct flock wanted = {.l_type = F_RDLCK, .l_whence = SEEK_CUR, .l_len = 10};
  SHOW(__fcntl(fd, F_GETLK, &wanted));
  SHOW(wanted.l_type == F_WRLCK && wanted.l_pid != 0);
  SHOW(wanted.l_whence * 10000 + wanted.l_start);
  wanted = (struct flock){.l_type = F_RDLCK, .l_whence = SEEK_CUR, .l_len = 9};
  SHOW(__fcntl(fd, F_SETLK, &wanted));
  SHOW(__fcntl(fd, F_SETLK, NULL));
  SHOW(__fcntl(fd, F_GETLK, (void*)8));
  SHOW(__fcntl(fd, F_OFD_SETLK, (void*)-8));
  SHOW(read(fd, got, 100));
}

static void receives(void) {
  struct rlimit none = {0, 0};
  char tail[1] = {0};
  int pair[2], fd = cached();
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  SHOW(send(pair[1], "abcdefgh", 8, 0));
  SHOW(__recv_chk(pair[0], got, 3, sizeof got, MSG_PEEK));
  SHOW(__recv_chk(pair[0], got, 3, sizeof got, MSG_WAITALL));
  SHOW(__recvfrom_chk(pair[0], got, 3, sizeof got, 0, NULL, NULL));
  SHOW(__recv_chk(pair[0], (void*)8, 3, sizeof got, 0));
  SHOW(__recvfrom_chk(pair[0], got, 99, sizeof got, 0, NULL, NULL));
  SHOW(__recv_chk(pair[0], got, 3, sizeof got, MSG_DONTWAIT));
  SHOW(__recvfrom_chk(pair[0], got, 3, sizeof got, MSG_DONTWAIT, NULL, NULL));
  SHOW(__recv_chk(fd, got, 3, sizeof got, 0));
  SHOW(__recvfrom_chk(fd, got, 3, sizeof got, 0, NULL, NULL));
  SHOW(__recv_chk(-1, got, 3, sizeof got, 0));
  SHOW(__recvfrom_chk(-1, got, 3, sizeof got, 0, NULL, NULL));
  SHOW_CHILD(setrlimit(RLIMIT_CORE, &none);
             dup2(open("/dev/null", O_WRONLY), 2);
             __recv_chk(pair[0], tail, 2, 1, 0));
  SHOW_CHILD(setrlimit(RLIMIT_CORE, &none);
             dup2(open("/dev/null", O_WRONLY), 2);
             __recvfrom_chk(pair[0], tail, 2, 1, 0, NULL, NULL));
  SHOW(read(fd, got, 100));
  close(pair[0]);
  close(pair[1]);
  close(fd);
}
