/* SPDX-License-Identifier: MIT */
/* What the victim programs share: a file whose every byte is known from its
 * offset, and checks that print what differs. A victim knows nothing of the
 * library; it prints the same with and without it. */
#pragma once

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* Byte `at` of the file of kind `salt`: no two pages are alike. */
static inline unsigned char byte_at(uint64_t at, unsigned salt) {
  return (unsigned char)(((at + salt) * 0x9E3779B97F4A7C15u) >> 43);
}

static inline void make_file(const char* path, size_t size, unsigned salt) {
  static unsigned char chunk[1 << 16];
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd < 0) {
    perror(path);
    exit(2);
  }
  for (size_t at = 0; at < size;) {
    size_t n = size - at < sizeof chunk ? size - at : sizeof chunk;
    for (size_t i = 0; i < n; ++i) chunk[i] = byte_at(at + i, salt);
    if (write(fd, chunk, n) != (ssize_t)n) {
      perror(path);
      exit(2);
    }
    at += n;
  }
  close(fd);
}

static inline int same_bytes(const void* got, size_t n, uint64_t at,
                             unsigned salt) {
  const unsigned char* p = (const unsigned char*)got;
  for (size_t i = 0; i < n; ++i) {
    if (p[i] != byte_at(at + i, salt)) return 0;
  }
  return 1;
}

/* Read and pread of exactly n bytes that must be those of offset `at`. */
static inline int reads(int fd, size_t n, uint64_t at, unsigned salt) {
  unsigned char got[1 << 16];
  return read(fd, got, n) == (ssize_t)n && same_bytes(got, n, at, salt);
}
static inline int preads(int fd, size_t n, uint64_t at, unsigned salt) {
  unsigned char got[1 << 16];
  return pread(fd, got, n, (off_t)at) == (ssize_t)n &&
         same_bytes(got, n, at, salt);
}

static int wrong_count;
#define CHECK(what)                                                      \
  do {                                                                   \
    if (!(what)) {                                                       \
      int code_ = errno;                                                 \
      ++wrong_count;                                                     \
      printf("line %d: wrong: %s (errno %d)\n", __LINE__, #what, code_); \
      fflush(stdout);                                                    \
    }                                                                    \
  } while (0)

static inline int verdict(void) {
  puts(wrong_count ? "FAIL" : "PASS");
  fflush(stdout);
  return wrong_count != 0;
}
