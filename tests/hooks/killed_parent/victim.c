/* SPDX-License-Identifier: MIT */
/* A reader is killed; a child of its lives on. Who then opens the file for
 * writing must not wait for that child. */
#include "../victim.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

static char stack[1 << 16] __attribute__((aligned(16)));

static int wait_to_be_killed(void* ready) {
  const pid_t here = 0; /* as long as a pid, and none */
  if (write(*(int*)ready, &here, sizeof here) != sizeof here) return 1;
  for (;;) pause();
}

/* In the reader: a child made in way `how`, which says so on `ready`. */
static pid_t make_child(int how, int* ready) {
  pid_t child;
  switch (how) {
    case 0:
      child = fork();
      break;
    case 1:
      child = _Fork();
      break;
    default:
      return clone(wait_to_be_killed, stack + sizeof stack, SIGCHLD, ready);
  }
  if (child == 0) wait_to_be_killed(ready);
  return child;
}

static void reader(int how, int ready) {
  int fd = open("data", O_RDONLY);
  CHECK(reads(fd, 5000, 0, 0) && reads(fd, 5000, 5000, 0));
  pid_t child = make_child(how, &ready);
  CHECK(write(ready, &child, sizeof child) == sizeof child);
  for (;;) pause();
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void round_of(int how) {
  int ends[2];
  pid_t said[2];
  CHECK(pipe(ends) == 0);
  pid_t pid = fork();
  if (pid == 0) reader(how, ends[1]);
  size_t got = 0;
  while (got < sizeof said) {
    ssize_t n = read(ends[0], (char*)said + got, sizeof said - got);
    if (n <= 0) break;
    got += (size_t)n;
  }
  CHECK(got == sizeof said);
  kill(pid, SIGKILL);
  CHECK(waitpid(pid, NULL, 0) == pid);
  double start = now();
  int fd = open("data", O_WRONLY);
  CHECK(fd >= 0 && now() - start < 2);
  close(fd);
  /* The pid stands before or behind the child's 0. */
  pid_t child = said[said[0] == 0];
  CHECK(child > 0 && kill(child, SIGKILL) == 0);
  close(ends[0]);
  close(ends[1]);
}

int main(void) {
  make_file("data", 1 << 20, 0);
  for (int how = 0; how < 3; ++how) round_of(how);
  return verdict();
}
