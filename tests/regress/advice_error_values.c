// SPDX-License-Identifier: MIT
// Advice calls fail exactly as the kernel's do, and posix_fadvise returns its
// error and leaves errno alone.
// Why: interposers took advice values for flags, or returned -1 where the
// number itself is due. (VictoriaMetrics 11495, OpenZFS 17379, elfuse 3.)
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { kPage = 4096, kMark = 4711 };
static int problems;

static void returns(const char* what, int got, int want) {
  if (got == want && errno == kMark) return;
  printf("problem: %s returned %d (want %d), errno %d (want %d)\n", what, got,
         want, errno, kMark);
  ++problems;
}
#define RETURNS(call, want) (errno = kMark, returns(#call, call, want))

static void fails(const char* what, long got, int want) {
  if (got == -1 && errno == want) return;
  printf("problem: %s = %ld, errno %d (want -1, %d)\n", what, got, errno, want);
  ++problems;
}
#define FAILS(call, want) (errno = 0, fails(#call, call, want))

static void advise_file(int reader, int writer) {
  for (int advice = POSIX_FADV_NORMAL; advice <= POSIX_FADV_NOREUSE; ++advice) {
    RETURNS(posix_fadvise(reader, 0, 0, advice), 0);
    RETURNS(posix_fadvise64(reader, 10 * kPage, kPage, advice), 0);
    RETURNS(posix_fadvise(reader, 1 << 30, 1, advice), 0);
    RETURNS(posix_fadvise(writer, 0, 0, advice), 0);
  }
  for (int advice = 6; advice < 40; ++advice)
    RETURNS(posix_fadvise(reader, 0, 0, advice), EINVAL);
  RETURNS(posix_fadvise(reader, 0, 0, -1), EINVAL);
  RETURNS(posix_fadvise64(reader, 0, -1, POSIX_FADV_WILLNEED), EINVAL);
}

static void advise_others(int name_only, int* pair, int* sockets) {
  RETURNS(posix_fadvise(-1, 0, 0, POSIX_FADV_NORMAL), EBADF);
  RETURNS(posix_fadvise(31337, 0, 0, 99), EBADF);
  RETURNS(posix_fadvise(name_only, 0, 0, POSIX_FADV_WILLNEED), EBADF);
  RETURNS(posix_fadvise(pair[0], 0, 0, POSIX_FADV_WILLNEED), ESPIPE);
  RETURNS(posix_fadvise(pair[1], 0, 0, 99), ESPIPE);
  FAILS(readahead(pair[0], 0, kPage), EINVAL);
  FAILS(readahead(sockets[0], 0, kPage), EINVAL);
  FAILS(readahead(name_only, 0, kPage), EBADF);
  FAILS(readahead(-1, 0, kPage), EBADF);
}

static void advise_memory(int reader) {
  char* view = mmap(NULL, 4 * kPage, PROT_READ, MAP_SHARED, reader, 0);
  if (view == MAP_FAILED) exit(2);
  FAILS(madvise(view, kPage, 4711), EINVAL);
  FAILS(madvise(view, 0, 4711), EINVAL);
  FAILS(madvise(view + 1, kPage, MADV_WILLNEED), EINVAL);
  if (madvise(view, 0, MADV_RANDOM) || madvise(view, 10, MADV_WILLNEED) ||
      madvise(view, 4 * kPage, MADV_SEQUENTIAL))
    ++problems, puts("problem: good advice on a mapping was refused");
  munmap(view + 2 * kPage, kPage);
  FAILS(madvise(view, 4 * kPage, MADV_WILLNEED), ENOMEM);
  FAILS(madvise(view, 4 * kPage, MADV_RANDOM), ENOMEM);
}

int main(void) {
  char name[] = "advice-XXXXXX";
  int created = mkstemp(name);
  if (created < 0 || ftruncate(created, 50 * kPage)) return 2;
  close(created);
  int reader = open(name, O_RDONLY), writer = open(name, O_WRONLY);
  int name_only = open(name, O_PATH), folder = open(".", O_RDONLY);
  int pair[2], sockets[2];
  if (pipe(pair) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets)) return 2;
  FAILS(readahead(writer, 0, kPage), EBADF);
  close(writer);
  char byte;
  if (pread(reader, &byte, 1, 0) != 1) return 2;  // may now be cached
  writer = open(name, O_WRONLY);
  advise_file(reader, writer);
  advise_others(name_only, pair, sockets);
  FAILS(readahead(folder, 0, kPage), EINVAL);
  if (readahead(reader, 0, 3 * kPage))
    ++problems, puts("problem: readahead of a file failed");
  advise_memory(reader);
  unlink(name);
  puts(problems ? "FAIL" : "PASS");
  return problems != 0;
}
