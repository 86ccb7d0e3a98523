/* SPDX-License-Identifier: MIT */
/* A process is stopped for longer than a writer has to wait for a lease
 * (lease-break-time), or only one of its threads is; the file changes
 * meanwhile. Not one read that begins after the change may be of the old bytes.
 * As root the time is made short for the length of the test. */
#include "../victim.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

enum { kReaders = 4, kSize = 1 << 20 };
static const char kBreakTime[] = "/proc/sys/fs/lease-break-time";

struct shared {
  int changed, done;
  long reads, stale, short_of; /* by all readers */
};
static struct shared* shared;

static int fd;
static void count(long* number) {
  __atomic_add_fetch(number, 1, __ATOMIC_SEQ_CST);
}

/* pread, read, and a seek to the end, which the change moves, in turn. */
static void* read_on(void* unused) {
  char bytes[4096];
  while (!__atomic_load_n(&shared->done, __ATOMIC_SEQ_CST)) {
    int changed = __atomic_load_n(&shared->changed, __ATOMIC_SEQ_CST);
    if (pread(fd, bytes, sizeof bytes, 8192) != sizeof bytes)
      count(&shared->short_of);
    if (changed && bytes[0] == 'A') count(&shared->stale);
    changed = __atomic_load_n(&shared->changed, __ATOMIC_SEQ_CST);
    if (read(fd, bytes, 100) == 100 && changed && bytes[0] == 'A')
      count(&shared->stale);
    changed = __atomic_load_n(&shared->changed, __ATOMIC_SEQ_CST);
    off_t end = lseek(fd, 0, SEEK_END);
    if (changed && end != kSize + 5000) count(&shared->stale);
    lseek(fd, 0, SEEK_SET);
    count(&shared->reads);
  }
  return unused;
}

static void reader(void) {
  pthread_t threads[kReaders];
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* it may be stopped then */
  fd = open("data", O_RDONLY);
  for (int i = 0; i < kReaders; ++i)
    pthread_create(&threads[i], NULL, read_on, NULL);
  for (int i = 0; i < kReaders; ++i) pthread_join(threads[i], NULL);
  _exit(0);
}

static void write_file(char letter, size_t size) {
  static char bytes[kSize + 5000];
  memset(bytes, letter, sizeof bytes);
  int out = open("data", O_WRONLY | O_CREAT, 0644);
  CHECK(out >= 0 && pwrite(out, bytes, size, 0) == (ssize_t)size);
  CHECK(ftruncate(out, (off_t)size) == 0 && fsync(out) == 0);
  close(out);
}

/* A thread that is not one of the readers; 0: there is none. */
static pid_t other_thread(pid_t pid) {
  char path[64], name[32] = "";
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR* folder = opendir(path);
  struct dirent* entry;
  pid_t found = 0;
  while (folder != NULL && (entry = readdir(folder)) != NULL) {
    snprintf(path, sizeof path, "/proc/%d/task/%.12s/comm", pid, entry->d_name);
    FILE* file = fopen(path, "r");
    if (file == NULL) continue;
    if (fgets(name, sizeof name, file) && !strcmp(name, "racache\n"))
      found = atoi(entry->d_name);
    fclose(file);
  }
  if (folder != NULL) closedir(folder);
  return found;
}

static void stop_one(pid_t thread, int stop) {
  if (thread == 0) return;
  if (stop) {
    CHECK(ptrace(PTRACE_ATTACH, thread, NULL, NULL) == 0);
    CHECK(waitpid(thread, NULL, __WALL) == thread);
  } else {
    CHECK(ptrace(PTRACE_DETACH, thread, NULL, NULL) == 0);
  }
}

static void round_of(int whole) {
  memset(shared, 0, sizeof *shared);
  write_file('A', kSize);
  pid_t pid = fork();
  if (pid == 0) reader();
  while (__atomic_load_n(&shared->reads, __ATOMIC_SEQ_CST) < 1000)
    usleep(10000);
  pid_t thread = whole ? 0 : other_thread(pid);
  if (whole) kill(pid, SIGSTOP);
  stop_one(thread, 1);
  usleep(100000);
  write_file('B', kSize + 5000);
  __atomic_store_n(&shared->changed, 1, __ATOMIC_SEQ_CST);
  usleep(100000);
  if (whole) kill(pid, SIGCONT);
  long before = __atomic_load_n(&shared->reads, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(&shared->reads, __ATOMIC_SEQ_CST) < before + 1000)
    usleep(10000);
  stop_one(thread, 0);
  usleep(300000);
  __atomic_store_n(&shared->done, 1, __ATOMIC_SEQ_CST);
  CHECK(waitpid(pid, NULL, 0) == pid);
  CHECK(shared->stale == 0 && shared->short_of == 0);
  if (shared->stale != 0) printf("%ld of %ld\n", shared->stale, shared->reads);
}

static char time_before[16]; /* as the file had it */
static void set_break_time(const char* text) {
  int file = open(kBreakTime, O_WRONLY);
  if (file < 0) return;
  CHECK(write(file, text, strlen(text)) == (ssize_t)strlen(text));
  close(file);
}
static void put_back(int signal) {
  set_break_time(time_before);
  _exit(128 + signal);
}
static int read_break_time(void) {
  int file = open(kBreakTime, O_RDONLY);
  if (file < 0 || read(file, time_before, sizeof time_before - 1) <= 0)
    return -1;
  close(file);
  return 0;
}

int main(void) {
  shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                -1, 0);
  if (read_break_time() != 0) return 2;
  const int ends[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGALRM};
  for (int i = 0; i < 5; ++i) signal(ends[i], put_back);
  alarm(90); /* before others lose patience, who may not ask first */
  set_break_time("2\n");
  for (int whole = 1; whole >= 0; --whole) round_of(whole);
  set_break_time(time_before);
  return verdict();
}
