/* SPDX-License-Identifier: MIT */
/* A program that reads nothing eligible must not pay for the library: 200
 * starts of `true` with it and 200 without, in turn; the medians may differ by
 * one millisecond.
 *
 * What is measured is the library, not whoever else wants the processors: the
 * starts run with real-time priority where that is allowed, and elsewhere a
 * round that failed is repeated. A library that is too slow fails them all.
 *
 * usage: victim LIBRARY [slow]; slow: it is a fault if the library is not. */
#include "../victim.h"

#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>

enum { kStarts = 200, kRounds = 5, kMostUs = 1000 };

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static double start_us(char* const* envp) {
  char* argv[] = {(char*)"/bin/true", NULL};
  int status;
  pid_t pid;
  double begin = now_us();
  if (posix_spawn(&pid, argv[0], NULL, NULL, argv, envp) != 0) exit(2);
  waitpid(pid, &status, 0);
  if (status != 0) exit(3);
  return now_us() - begin;
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
static double round_us(char* const* bare, char* const* loaded) {
  static double without[kStarts], with[kStarts];
  for (int i = 0; i < kStarts; ++i) {
    without[i] = start_us(bare);
    with[i] = start_us(loaded);
  }
  double a = median(without), b = median(with);
  printf("start of true: %.0f us, with the library %.0f us, +%.0f us\n", a, b,
         b - a);
  fflush(stdout);
  return b - a;
}

int main(int argc, char** argv) {
  char preload[4096];
  const struct sched_param first = {.sched_priority = 1};
  if (argc < 2) return 2;
  int slow = argc > 2 && strcmp(argv[2], "slow") == 0;
  snprintf(preload, sizeof preload, "LD_PRELOAD=%s", argv[1]);
  char* bare[] = {(char*)"PATH=/usr/bin:/bin", NULL};
  char* loaded[] = {(char*)"PATH=/usr/bin:/bin", preload, NULL};
  if (sched_setscheduler(0, SCHED_FIFO, &first) != 0) {
    puts("without real-time priority");
  }
  for (int i = 0; i < kRounds; ++i) {
    if (round_us(bare, loaded) <= kMostUs) return slow;
  }
  return !slow;
}
