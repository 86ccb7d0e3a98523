/* SPDX-License-Identifier: MIT */
/* A signal handler that interrupts a read may fork, and both processes return
 * from it into the read: each gets the right bytes, and reads on. */
#include "../victim.h"

#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { kSize = 1 << 20, kForks = 60 };

static volatile sig_atomic_t forks, in_child;

static void on_alarm(int signal) {
  int status = -1;
  (void)signal;
  if (in_child) return;
  pid_t pid = forks % 2 ? fork() : _Fork();
  if (pid == 0) {
    in_child = 1;
    return;
  }
  waitpid(pid, &status, 0);
  if (status != 0) _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 90);
  ++forks;
}

static int right(int fd, char* buffer, unsigned long at, size_t n) {
  return pread(fd, buffer, n, (off_t)at) == (ssize_t)n &&
         same_bytes(buffer, n, at, 0);
}

int main(void) {
  static char buffer[600000];
  struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
  struct itimerval soon = {{0, 0}, {0, 0}};
  make_file("data", kSize, 0);
  int fd = open("data", O_RDONLY);
  CHECK(right(fd, buffer, 0, sizeof buffer) &&
        right(fd, buffer, kSize - sizeof buffer, sizeof buffer));
  sigaction(SIGALRM, &action, NULL);
  for (unsigned i = 0; forks < kForks; ++i) {
    soon.it_value.tv_usec = 20 + (long)(i * 7 % 400);
    sig_atomic_t before = forks; /* at once, on a busy machine */
    setitimer(ITIMER_REAL, &soon, NULL);
    do {
      ssize_t n = pread(fd, buffer, sizeof buffer, 1000);
      if (n != sizeof buffer) {
        printf("%s: %ld, errno %d\n", in_child ? "child" : "parent", (long)n,
               errno);
        _exit(91);
      }
      if (in_child && !same_bytes(buffer, sizeof buffer, 1000, 0)) _exit(92);
      if (in_child) _exit(right(fd, buffer, 5000, 60000) ? 0 : 93);
    } while (forks == before);
    CHECK(same_bytes(buffer, sizeof buffer, 1000, 0));
  }
  return verdict();
}
