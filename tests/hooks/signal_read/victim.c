/* SPDX-License-Identifier: MIT */
/* A signal handler may read, also from the file that the interrupted code is
 * reading, also on a small stack of its own, and may jump out of the call that
 * it interrupted. Nothing may dead-lock, and the bytes stay right. */
#include "../victim.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

enum { kSize = 4 << 20, kTicks = 400 };
static volatile sig_atomic_t ticks, bad, jumping;
static int common, own;
static sigjmp_buf back;
static unsigned char* volatile on_stack; /* the handler's frame */

static void tick(int number) {
  (void)number;
  int saved = errno;
  on_stack = __builtin_frame_address(0);
  unsigned char got[700];
  uint64_t at = (uint64_t)ticks * 7919 % (kSize - sizeof got);
  if (pread(common, got, sizeof got, (off_t)at) != sizeof got ||
      !same_bytes(got, sizeof got, at, 0)) {
    bad = __LINE__;
  }
  if (lseek(own, 500, SEEK_SET) != 500 || read(own, got, 100) != 100 ||
      !same_bytes(got, 100, 500, 7)) {
    bad = __LINE__;
  }
  int fd = open("b", O_RDONLY);
  if (pread(fd, got, 100, 9) != 100 || !same_bytes(got, 100, 9, 7)) {
    bad = __LINE__;
  }
  close(fd);
  errno = saved;
  ++ticks;
  if (jumping) siglongjmp(back, 1);
}

static void start(int flags) {
  struct sigaction action = {.sa_handler = tick, .sa_flags = flags};
  sigaction(SIGALRM, &action, NULL);
  struct itimerval every = {{0, 1000}, {0, 1000}};
  ticks = 0;
  setitimer(ITIMER_REAL, &every, NULL);
}
static void end(void) {
  struct itimerval never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &never, NULL);
}

static void read_until(int enough) {
  static unsigned char got[1 << 16];
  uint64_t at = 0;
  while (ticks < enough && !bad) {
    at = (at + 104729) % (kSize - sizeof got);
    ssize_t n = pread(common, got, sizeof got, (off_t)at);
    if (n != sizeof got || !same_bytes(got, 64, at, 0)) bad = __LINE__;
    if (n == sizeof got && !same_bytes(got + n - 64, 64, at + n - 64, 0)) {
      bad = __LINE__;
    }
  }
}

/* Stacks for signals of 2 KiB behind the kernel's frame exist: what the handler
 * and the calls in it take is read off a pattern that they overwrite. */
enum { kStack = 64 << 10, kPattern = 0xA5 };
static void small_stack(void) {
  unsigned char* memory = mmap(NULL, kStack, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(memory, kPattern, kStack);
  stack_t stack = {.ss_sp = memory, .ss_size = kStack};
  CHECK(sigaltstack(&stack, NULL) == 0);
  start(SA_ONSTACK);
  read_until(kTicks);
  end();
  CHECK(!bad && ticks >= kTicks);
  size_t untouched = 0;
  while (untouched < kStack && memory[untouched] == kPattern) ++untouched;
  CHECK(on_stack > memory && on_stack < memory + kStack);
  CHECK(on_stack - (memory + untouched) <= 2048);
}

static void jump_out(void) {
  start(SA_NODEFER);
  for (volatile int i = 0; ticks < kTicks && !bad; ++i) {
    jumping = 0;
    if (sigsetjmp(back, 1) == 0) {
      jumping = 1;
      read_until(kTicks);
    }
    jumping = 0;
  }
  end();
  CHECK(!bad && ticks >= kTicks);
  CHECK(preads(common, 50000, 1 << 20, 0));
}

int main(void) {
  make_file("a", kSize, 0);
  make_file("b", 1 << 20, 7);
  common = open("a", O_RDONLY);
  own = open("b", O_RDONLY);
  start(0);
  read_until(kTicks);
  end();
  CHECK(!bad && ticks >= kTicks);
  small_stack();
  jump_out();
  return verdict();
}
