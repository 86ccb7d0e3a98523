/* SPDX-License-Identifier: MIT */
/* Calls are printed with what they did; the two runs must print the same. */
#pragma once

#include "../other_names.h"

#include <sys/wait.h>

static char got[1 << 16];

static unsigned sum_of(const void* bytes, size_t count) {
  unsigned sum = 0;
  for (size_t i = 0; i < count; ++i) {
    sum = sum * 16777619 + ((const unsigned char*)bytes)[i];
  }
  return sum;
}

/* The result, errno (which is 77 if the call leaves it alone), the bytes. */
#define SHOW(call)                                           \
  do {                                                       \
    memset(got, 0, sizeof got);                              \
    errno = 77;                                              \
    long r_ = (long)(call);                                  \
    int e_ = errno;                                          \
    printf("%s: %ld, errno %d, bytes %08x\n", #call, r_, e_, \
           sum_of(got, sizeof got));                         \
    fflush(stdout);                                          \
  } while (0)

/* Read by the cache already, at position 5000. */
static int cached(void) {
  int fd = open("data", O_RDONLY);
  CHECK(reads(fd, 5000, 0, 0) && preads(fd, 5000, 70000, 0));
  return fd;
}

/* A child's status; what it prints comes before what its parent does. */
#define SHOW_CHILD(body)                \
  do {                                  \
    int status_ = -1;                   \
    pid_t pid_ = fork();                \
    if (pid_ == 0) {                    \
      body;                             \
      _exit(wrong_count != 0);          \
    }                                   \
    waitpid(pid_, &status_, 0);         \
    printf("%s: %x\n", #body, status_); \
    fflush(stdout);                     \
  } while (0)
