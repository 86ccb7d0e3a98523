/* SPDX-License-Identifier: MIT */
/* madvise, posix_madvise and mremap on mappings of a cached file. */
#pragma once

#include "show.h"

#include <sys/mman.h>

enum { kPage = 4096, kPages = 16 };

/* Pages 8 and 9 are not mapped. */
static char* with_gap(int fd) {
  char* at = (char*)mmap(NULL, kPages * kPage, PROT_READ, MAP_PRIVATE, fd, 0);
  CHECK(at != MAP_FAILED);
  munmap(at + 8 * kPage, 2 * kPage);
  return at;
}

#define ADVICE_BY(name)                                                        \
  static void advice_by_##name(char* at) {                                     \
    for (int advice = -1; advice < 30; ++advice) {                             \
      printf("advice %d\n", advice);                                           \
      SHOW(name(at, 4 * kPage, advice));                                       \
      SHOW(name(at, 1, advice)); /* less than a page */                        \
      SHOW(name(at, 0, advice));                                               \
      SHOW(name(at + 1, kPage, advice)); /* not at a page's begin */           \
      SHOW(name(at + 1, 0, advice));                                           \
      SHOW(name(at, (size_t)-1, advice));         /* rounds up to nothing */   \
      SHOW(name(at, (size_t)-2 * kPage, advice)); /* past the address space */ \
      SHOW(name(at + 6 * kPage, 6 * kPage, advice)); /* a gap in it */         \
      SHOW(name(at + 8 * kPage, kPage, advice));     /* nothing but a gap */   \
      SHOW(name((void*)-kPage, kPage, advice));      /* the kernel's */        \
    }                                                                          \
  }
// clang-format off
ADVICE_BY(madvise)
ADVICE_BY(posix_madvise)
// clang-format on

static void advice(void) {
  int fd = cached();
  char* at = with_gap(fd);
  advice_by_madvise(at);
  CHECK(same_bytes(at, 8 * kPage, 0, 0));
  advice_by_posix_madvise(at);
  CHECK(same_bytes(at, 8 * kPage, 0, 0));
  /* POSIX's advice loses no changes, Linux's does. */
  char* own =
      (char*)mmap(NULL, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  own[0] = (char)(own[0] + 1);
  SHOW(posix_madvise(own, kPage, POSIX_MADV_DONTNEED));
  CHECK(!same_bytes(own, 1, 0, 0));
  SHOW(madvise(own, kPage, MADV_DONTNEED));
  CHECK(same_bytes(own, 1, 0, 0));
  munmap(own, kPage);
  munmap(at, kPages * kPage);
  SHOW(read(fd, got, 100));
  close(fd);
}

static char* mapped(int fd, int flags, size_t pages) {
  return (char*)mmap(NULL, pages * kPage, PROT_READ, flags, fd, 0);
}

/* What follows is said without the addresses. */
#define MOVED(call)                                                      \
  ({                                                                     \
    errno = 77;                                                          \
    char* r_ = (char*)(call);                                            \
    printf("%s: %d, errno %d\n", #call, r_ != (char*)MAP_FAILED, errno); \
    fflush(stdout);                                                      \
    r_;                                                                  \
  })

static void moves_mapping(int fd, int flags) {
  char* at = mapped(fd, flags, 4);
  at = MOVED(mremap(at, 4 * kPage, 8 * kPage, MREMAP_MAYMOVE));
  CHECK(same_bytes(at, 8 * kPage, 0, 0));
  CHECK(MOVED(mremap(at, 8 * kPage, 2 * kPage, 0)) == at);
  CHECK(same_bytes(at, 2 * kPage, 0, 0));
  SHOW(posix_madvise(at, 3 * kPage, POSIX_MADV_NORMAL)); /* it is gone */
  char* to = mapped(fd, flags, 4);
  CHECK(MOVED(mremap(at, 2 * kPage, 4 * kPage, MREMAP_MAYMOVE | MREMAP_FIXED,
                     to)) == to);
  CHECK(same_bytes(to, 4 * kPage, 0, 0));
  MOVED(mremap(to + 1, kPage, kPage, MREMAP_MAYMOVE));
  MOVED(mremap(to, kPage, 0, MREMAP_MAYMOVE));
  MOVED(mremap(to, kPage, 2 * kPage, 64));
  MOVED(mremap(to, kPage, 2 * kPage, MREMAP_FIXED, at));
  MOVED(mremap(to, 2 * kPage, 2 * kPage, MREMAP_MAYMOVE | MREMAP_FIXED,
               to + kPage));
  MOVED(mremap(to, kPage, kPage, MREMAP_MAYMOVE | MREMAP_FIXED, to + 9));
  MOVED(mremap(to, kPage, (size_t)-kPage, MREMAP_MAYMOVE));
  MOVED(mremap((void*)(kPage * 3), kPage, kPage, MREMAP_MAYMOVE | MREMAP_FIXED,
               to));
  munmap(to, 4 * kPage);
}

/* A length of nothing makes a second mapping of the same; only if shared. */
static void doubles_mapping(int fd, int flags) {
  char* at = mapped(fd, flags, 4);
  char* twin = MOVED(mremap(at, 0, 4 * kPage, MREMAP_MAYMOVE));
  CHECK(same_bytes(at, 4 * kPage, 0, 0));
  if (twin != (char*)MAP_FAILED) {
    CHECK(twin != at && same_bytes(twin, 4 * kPage, 0, 0));
    munmap(twin, 4 * kPage);
  }
  munmap(at, 4 * kPage);
}

static void remaps(void) {
  int fd = cached();
  moves_mapping(fd, MAP_SHARED);
  moves_mapping(fd, MAP_PRIVATE);
  doubles_mapping(fd, MAP_SHARED);
  SHOW(read(fd, got, 100));
  close(fd);
}
