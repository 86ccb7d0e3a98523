/* SPDX-License-Identifier: MIT */
/* An open for writing with O_NONBLOCK meets no lease of the program's own,
 * however long the thread that has to let go of it does not get a processor. */
#include "../victim.h"

#include <dirent.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

static int pin(pid_t thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return sched_setaffinity(thread, sizeof set, &set);
}

/* The first and the last one that we may use. */
static int two_cpus(int cpus[2]) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 0;
  cpus[0] = cpus[1] = -1;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (!CPU_ISSET(i, &set)) continue;
    if (cpus[0] < 0) cpus[0] = i;
    cpus[1] = i;
  }
  return cpus[0] != cpus[1];
}

/* All threads but this one, so also those that are not the program's. */
static void pin_others(int cpu) {
  DIR* tasks = opendir("/proc/self/task");
  for (struct dirent* d; tasks != NULL && (d = readdir(tasks)) != NULL;) {
    pid_t thread = atoi(d->d_name);
    if (thread > 0 && thread != (pid_t)syscall(SYS_gettid)) pin(thread, cpu);
  }
  if (tasks != NULL) closedir(tasks);
}

/* Nothing else runs on `cpu` for 0.4 s from when this returns. */
static pid_t occupy(int cpu) {
  const struct sched_param first = {.sched_priority = 50};
  struct timespec now;
  int go[2];
  char byte;
  if (pipe(go) != 0) exit(2);
  pid_t child = fork();
  if (child == 0) {
    double end;
    if (pin(0, cpu) != 0 || sched_setscheduler(0, SCHED_FIFO, &first) != 0) {
      _exit(77);
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    end = now.tv_sec + now.tv_nsec / 1e9 + 0.4;
    if (write(go[1], "g", 1) != 1) _exit(2);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while (now.tv_sec + now.tv_nsec / 1e9 < end);
    _exit(0);
  }
  close(go[1]);
  CHECK(read(go[0], &byte, 1) >= 0);
  close(go[0]);
  return child;
}

static int opens(const char* path, int way, int flags) {
  struct {
    uint64_t flags, mode, resolve;
  } how = {(uint64_t)flags, 0, 0};
  if (way == 0) return open(path, flags);
  if (way == 1) return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0);
  return (int)syscall(437 /* openat2 */, AT_FDCWD, path, &how, sizeof how);
}

int main(void) {
  int cpus[2];
  make_file("data", 1 << 20, 0);
  if (!two_cpus(cpus)) {
    puts("skipped: needs two processors");
    return 77;
  }
  pin(0, cpus[1]);
  for (int way = 0; way < 3; ++way) {
    int fd = open("data", O_RDONLY), status;
    CHECK(preads(fd, 60000, 1000, 0) && preads(fd, 60000, 1000, 0));
    pin_others(cpus[0]);
    pid_t child = occupy(cpus[0]);
    int writer = opens("data", way, O_RDWR | O_NONBLOCK | O_APPEND);
    if (writer < 0) printf("way %d: %s\n", way, strerror(errno));
    CHECK(writer >= 0);
    CHECK(preads(fd, 60000, 1000, 0));
    CHECK(waitpid(child, &status, 0) == child);
    if (WEXITSTATUS(status) == 77) {
      puts("skipped: needs real-time priority");
      return 77;
    }
    CHECK(status == 0);
    close(writer);
    close(fd);
    usleep(20000);
  }
  return verdict();
}
