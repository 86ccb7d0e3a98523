/* SPDX-License-Identifier: MIT */
/* Taking a file into the cache costs the program that reads it once: little
 * when the engine runs, more at the first file of a process. In 25 processes
 * with the library and 25 without, in turn, the first read of each of 20 files
 * is timed; how far the medians may be apart leaves room for a busy machine. */
#include "../victim.h"

#include <spawn.h>
#include <sys/wait.h>
#include <time.h>

enum { kRuns = 25, kFiles = 20, kSize = 1 << 17 };

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int compare(const void* a, const void* b) {
  double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}
static double median(double* values, int count) {
  qsort(values, (size_t)count, sizeof *values, compare);
  return values[count / 2];
}

/* Prints what the first read of the first file took, and of the others. */
static int read_files(void) {
  static char buffer[4096];
  double first = 0, later[kFiles - 1];
  for (int i = 0; i < kFiles; ++i) {
    char name[32];
    snprintf(name, sizeof name, "file%d", i);
    int fd = open(name, O_RDONLY);
    double begin = now_us();
    if (pread(fd, buffer, sizeof buffer, 0) != sizeof buffer) return 3;
    double took = now_us() - begin;
    if (i == 0) first = took;
    if (i > 0) later[i - 1] = took;
  }
  printf("%.1f %.1f\n", first, median(later, kFiles - 1));
  return 0;
}

static void measure(char** argv, char* const* envp, double* first,
                    double* later) {
  int ends[2], status;
  pid_t pid;
  char text[64] = "";
  posix_spawn_file_actions_t actions;
  if (pipe2(ends, O_CLOEXEC) != 0) exit(2);
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  char* again[] = {argv[0], NULL};
  if (posix_spawn(&pid, argv[0], &actions, NULL, again, envp) != 0) exit(2);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  ssize_t n = read(ends[0], text, sizeof text - 1);
  close(ends[0]);
  waitpid(pid, &status, 0);
  if (status != 0 || n <= 0 || sscanf(text, "%lf %lf", first, later) != 2)
    exit(3);
}

int main(int argc, char** argv) {
  static double first[2][kRuns], later[2][kRuns];
  char preload[4096];
  if (argc < 2) return read_files();
  const char* work = getenv("HOOK_WORK");
  char command[4200];
  snprintf(command, sizeof command, "mkdir -p %s", work);
  if (work != NULL && (system(command) != 0 || chdir(work) != 0)) return 2;
  for (int i = 0; i < kFiles; ++i) {
    char name[32];
    snprintf(name, sizeof name, "file%d", i);
    make_file(name, kSize, (unsigned)i);
  }
  snprintf(preload, sizeof preload, "LD_PRELOAD=%s", argv[1]);
  char* bare[] = {(char*)"PATH=/usr/bin:/bin", NULL};
  char* loaded[] = {(char*)"PATH=/usr/bin:/bin", preload,
                    (char*)"RACACHE_STATS=off", NULL};
  for (int i = 0; i < kRuns; ++i) {
    measure(argv, bare, &first[0][i], &later[0][i]);
    measure(argv, loaded, &first[1][i], &later[1][i]);
  }
  double first_more = median(first[1], kRuns) - median(first[0], kRuns);
  double later_more = median(later[1], kRuns) - median(later[0], kRuns);
  printf("first read of a process: %.0f us, with the library +%.0f us\n",
         median(first[0], kRuns), first_more);
  printf("first read of a file: %.0f us, with the library +%.0f us\n",
         median(later[0], kRuns), later_more);
  return first_more > 25000 || later_more > 5000;
}
