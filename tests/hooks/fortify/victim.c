/* SPDX-License-Identifier: MIT */
/* Built with -D_FORTIFY_SOURCE=2, so that libc's headers call the checking
 * twins (__read_chk, __open_2 ...). They must be served like the plain names,
 * and an overflow must still end the program. */
#include "../victim.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#if !defined(__USE_FORTIFY_LEVEL) || __USE_FORTIFY_LEVEL < 2
#error "this test is about the checking twins"
#endif

static volatile size_t wanted; /* unknown to the compiler */
static volatile int flags = O_RDONLY;

/* Runs `body` in a child; how it ended. */
#define ENDS_BY_ABORT(body)                               \
  ({                                                      \
    pid_t pid_ = fork();                                  \
    if (pid_ == 0) {                                      \
      quiet();                                            \
      body;                                               \
      _exit(0);                                           \
    }                                                     \
    int status_ = 0;                                      \
    waitpid(pid_, &status_, 0);                           \
    WIFSIGNALED(status_) && WTERMSIG(status_) == SIGABRT; \
  })
static void quiet(void) {
  struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  int null = open("/dev/null", O_WRONLY);
  dup2(null, 2);
}

static void served(int fd) {
  char small[64];
  wanted = 64;
  CHECK(read(fd, small, wanted) == 64 && same_bytes(small, 64, 0, 0));
  CHECK(read(fd, small, wanted) == 64 && same_bytes(small, 64, 64, 0));
  CHECK(pread(fd, small, wanted, 5000) == 64);
  CHECK(same_bytes(small, 64, 5000, 0));
  CHECK(pread64(fd, small, wanted, 70000) == 64);
  CHECK(same_bytes(small, 64, 70000, 0));
  CHECK(lseek(fd, 0, SEEK_CUR) == 128);
}

static void overflows(int fd) {
  char small[64];
  wanted = 65;
  CHECK(ENDS_BY_ABORT(read(fd, small, wanted) == 1 ? exit(1) : (void)0));
  CHECK(ENDS_BY_ABORT(pread(fd, small, wanted, 0) == 1 ? exit(1) : (void)0));
  CHECK(ENDS_BY_ABORT(pread64(fd, small, wanted, 0) == 1 ? exit(1) : (void)0));
  CHECK(lseek(fd, 0, SEEK_CUR) == 128);
}

/* O_CREAT without a mode is refused by the checking twins of open. */
static void modeless(void) {
  flags = O_CREAT | O_RDONLY;
  CHECK(ENDS_BY_ABORT(open("new", flags)));
  CHECK(ENDS_BY_ABORT(open64("new", flags)));
  CHECK(ENDS_BY_ABORT(openat(AT_FDCWD, "new", flags)));
  CHECK(ENDS_BY_ABORT(openat64(AT_FDCWD, "new", flags)));
  CHECK(access("new", F_OK) == -1);
}

int main(void) {
  make_file("data", 1 << 20, 0);
  int fds[4] = {open("data", flags), open64("data", flags),
                openat(AT_FDCWD, "data", flags),
                openat64(AT_FDCWD, "data", flags)};
  for (int i = 0; i < 4; ++i) served(fds[i]);
  overflows(fds[0]);
  modeless();
  return verdict();
}
