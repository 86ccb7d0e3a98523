/* SPDX-License-Identifier: MIT */
/* Operations by libc's other names: those of old programs, and those that
 * checking headers (_FORTIFY_SOURCE) call. From operations.h. */
#pragma once

// clang-format off
#define TWINS(X)                                                            \
  X(__open, { return opened(__open("data", O_RDONLY)); })                   \
  X(__open64, { return opened(__open64("data", O_RDONLY)); })               \
  X(__open_2, { return opened(__open_2("data", O_RDONLY)); })               \
  X(__open64_2, { return opened(__open64_2("data", O_RDONLY)); })           \
  X(__openat_2, { return opened(__openat_2(AT_FDCWD, "data", O_RDONLY)); }) \
  X(__openat64_2, {                                                         \
      return opened(__openat64_2(AT_FDCWD, "data", O_RDONLY)); })           \
  X(openat2, { return opened(by_openat2("data")); })                        \
  X(openat2_absent, { RESULT(by_openat2("absent")); })                      \
  X(__read, { GOT(__read(0, got, 100)); })                                  \
  X(__pread64, { GOT(__pread64(0, got, 100, 70)); })                        \
  X(__read_chk, { GOT(__read_chk(0, got, 100, sizeof got)); })              \
  X(__pread_chk, { GOT(__pread_chk(0, got, 100, 70, sizeof got)); })        \
  X(__pread64_chk, { GOT(__pread64_chk(0, got, 100, 70, sizeof got)); })    \
  X(__recv_chk, { RESULT(__recv_chk(0, got, 1, sizeof got, 0)); })          \
  X(__recvfrom_chk, {                                                       \
      RESULT(__recvfrom_chk(0, got, 1, sizeof got, 0, NULL, NULL)); })      \
  X(__write, { int fd = open("new", O_WRONLY | O_CREAT, 0600);              \
               RESULT(__write(fd, "abc", 3)); })                            \
  X(__lseek, { RESULT(__lseek(0, 5, SEEK_END)); })                          \
  X(__close, { RESULT(__close(0)); })                                       \
  X(__dup2, { RESULT(__dup2(0, 50)); })                                     \
  X(__fcntl, { RESULT(__fcntl(0, F_DUPFD, 60)); })
// clang-format on
