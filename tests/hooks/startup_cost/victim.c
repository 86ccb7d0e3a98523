/* SPDX-License-Identifier: MIT */
/* A program that reads nothing eligible must not pay for the library: 200
 * starts of `true` with it and 200 without, in turn; the medians may differ by
 * one millisecond.
 *
 * What is measured is the library, not whoever else wants the processors: what
 * goes by on run queues is not counted, computing and sleeping are. Others
 * still make computing slower, so a round that failed is repeated; a library
 * that is too slow fails them all. Where the scheduler keeps no account, only
 * the repetition helps.
 *
 * usage: victim LIBRARY [slow] [crowded]; slow: it is a fault if the library
 * is not; crowded: beside a busy loop for each processor. */
#include "../victim.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

enum { kStarts = 200, kRounds = 3, kMostUs = 1000, kTries = 50 };

struct start {
  double wall, own; /* own: less what went by on run queues */
};

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

/* For how long a process has been ready, but others were running. */
static double queued_us(const char* schedstat) {
  char text[128];
  unsigned long long ns;
  int fd = open(schedstat, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return 0;
  text[n] = '\0';
  return sscanf(text, "%*u %llu", &ns) == 1 ? (double)ns / 1e3 : 0;
}

static long times_slept(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nvcsw;
}

static int become_true(void* envp) {
  char* argv[] = {(char*)"/bin/true", NULL};
  execve(argv[0], argv, (char**)envp);
  _exit(127);
}

/* Shares the memory with the child, as posix_spawn() does, but does not wait
 * for its execve(): it would be woken up while the child runs, and its own
 * wait for a processor would not tell. Returns 0 if it did not get to sleep
 * before the child's end, for the same reason. */
static int try_start(char** envp, struct start* took) {
  static _Alignas(16) char stack[1 << 16];
  char schedstat[64];
  siginfo_t end;
  double begin = now_us();
  pid_t pid =
      clone(become_true, stack + sizeof stack, CLONE_VM | SIGCHLD, envp);
  if (pid < 0) exit(2);
  double queued = queued_us("/proc/self/schedstat");
  long slept = times_slept();
  /* The account of the child is there for as long as it is not reaped. */
  if (waitid(P_PID, (id_t)pid, &end, WEXITED | WNOWAIT) != 0) exit(2);
  took->wall = now_us() - begin;
  slept = times_slept() - slept;
  queued = queued_us("/proc/self/schedstat") - queued;
  snprintf(schedstat, sizeof schedstat, "/proc/%d/schedstat", (int)pid);
  took->own = took->wall - queued - queued_us(schedstat);
  waitpid(pid, NULL, 0);
  if (end.si_code != CLD_EXITED || end.si_status != 0) exit(3);
  return slept != 0;
}

static struct start start(char** envp) {
  struct start took;
  for (int i = 0; i < kTries && !try_start(envp, &took); ++i) continue;
  return took;
}

static int compare(const void* a, const void* b) {
  double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}
static double median(double* values) {
  qsort(values, kStarts, sizeof *values, compare);
  return values[kStarts / 2];
}

/* What the library adds to a start. */
static double round_us(char** bare, char** loaded) {
  static double wall[2][kStarts], own[2][kStarts];
  for (int i = 0; i < kStarts; ++i) {
    for (int with = 0; with < 2; ++with) {
      struct start took = start(with ? loaded : bare);
      wall[with][i] = took.wall;
      own[with][i] = took.own;
    }
  }
  double a = median(own[0]), b = median(own[1]);
  printf("start of true: %.0f us, with the library %.0f us, +%.0f us", a, b,
         b - a);
  printf(" (with run queues +%.0f us)\n", median(wall[1]) - median(wall[0]));
  fflush(stdout);
  return b - a;
}

/* Busy loops that end with this process. */
static void crowd(void) {
  pid_t parent = getpid();
  for (long i = sysconf(_SC_NPROCESSORS_ONLN); i > 0; --i) {
    if (fork() != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == parent) continue;
    _exit(0);
  }
}

int main(int argc, char** argv) {
  char preload[4096];
  int slow = 0;
  if (argc < 2) return 2;
  for (int i = 2; i < argc; ++i) {
    if (strcmp(argv[i], "slow") == 0) slow = 1;
    if (strcmp(argv[i], "crowded") == 0) crowd();
  }
  snprintf(preload, sizeof preload, "LD_PRELOAD=%s", argv[1]);
  char* bare[] = {(char*)"PATH=/usr/bin:/bin", NULL};
  char* loaded[] = {(char*)"PATH=/usr/bin:/bin", preload, NULL};
  for (int i = 0; i < kRounds; ++i) {
    if (round_us(bare, loaded) <= kMostUs) return slow;
  }
  return !slow;
}
