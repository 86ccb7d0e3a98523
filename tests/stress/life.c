/* SPDX-License-Identifier: MIT */
/* What a process may do to itself while its threads read and handlers interrupt
 * them: make children in every way, that read, make children, end, become other
 * programs, leave their root or their terminal. Every byte read is checked, and
 * that every child ends well and in time.
 *
 *   life SEED SECONDS      in a folder of its own, under the library
 *   life child FILE        what is executed: reads the file */
#include "../hooks/victim.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

enum { kSize = 3 << 20, kThreads = 3, kPatience = 60 };

extern char** environ;
static char self[4096];
static int shared_fd, handler_fd;
static volatile sig_atomic_t stop, wrong_in_handler;

static unsigned next_random(unsigned* state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A few reads of a file opened here, and of one that was inherited. */
static int reads_well(unsigned* state) {
  int fd = open("data", O_RDONLY | O_CLOEXEC), good = fd >= 0;
  for (int i = 0; good && i < 4; ++i) {
    good &= preads(fd, 1 + next_random(state) % 60000,
                   next_random(state) % (kSize - 60000), 0);
    good &= preads(shared_fd, 4096, next_random(state) % (kSize - 4096), 0);
  }
  good &= lseek(fd, 12345, SEEK_SET) == 12345 && reads(fd, 5000, 12345, 0);
  return close(fd) == 0 && good;
}

static void on_alarm(int signal) {
  static unsigned state = 1;
  int code = errno;
  (void)signal;
  unsigned char got[512];
  uint64_t at = next_random(&state) % (kSize - sizeof got);
  if (pread(handler_fd, got, sizeof got, (off_t)at) != sizeof got ||
      !same_bytes(got, sizeof got, at, 0)) {
    wrong_in_handler = 1;
  }
  errno = code;
}

static void alarms(long microseconds) {
  struct itimerval every = {{0, microseconds}, {0, microseconds}};
  setitimer(ITIMER_REAL, &every, NULL);
}

static void* reader(void* argument) {
  unsigned state = (unsigned)(uintptr_t)argument;
  while (!stop) {
    if (!reads_well(&state)) return (void*)1;
  }
  return NULL;
}
static void* reader_for_ever(void* argument) {
  unsigned char* buffer = malloc(1 << 16);
  pthread_cleanup_push(free, buffer);
  for (uint64_t at = 0;; at = (at + 4096) % (kSize - (1 << 16))) {
    if (pread(shared_fd, buffer, 1 << 16, (off_t)at) != 1 << 16) abort();
    pthread_testcancel();
  }
  pthread_cleanup_pop(1);
  return argument;
}

/* ---- What a child does. ---- */

static int just_reads(unsigned* s) { return reads_well(s); }
static int has_child(unsigned* s) {
  pid_t pid = fork();
  if (pid == 0) _exit(reads_well(s) ? 0 : 1);
  int status = -1, good = reads_well(s);
  return waitpid(pid, &status, 0) == pid && status == 0 && good;
}
static int has_threads(unsigned* s) {
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i)
    pthread_create(&threads[i], NULL, reader_for_ever, NULL);
  int good = reads_well(s);
  pthread_cancel(threads[0]);
  pthread_join(threads[0], NULL);
  return good && reads_well(s); /* the other still reads when we exit */
}
static int becomes_program(unsigned* s) {
  if (!reads_well(s)) return 0;
  execl(self, self, "child", "data", (char*)NULL);
  return 0;
}
static int goes_without_streams(unsigned* s) {
  for (int fd = 0; fd < 3; ++fd) close(fd);
  return reads_well(s) && open("data", O_RDONLY) == 0 &&
         preads(0, 4096, 999, 0) && reads(0, 4096, 0, 0);
}
static int changes_root(unsigned* s) {
  if (!reads_well(s)) return 0;
  return geteuid() != 0 || (chroot(".") == 0 && reads_well(s));
}
static int changes_user(unsigned* s) {
  if (!reads_well(s)) return 0;
  return geteuid() != 0 ||
         (setgid(65534) == 0 && setuid(65534) == 0 && reads_well(s));
}
static int changes_namespace(unsigned* s) {
  if (!reads_well(s)) return 0;
  int fd = open("/proc/self/ns/mnt", O_RDONLY), here = open(".", O_RDONLY);
  if (geteuid() == 0 && setns(fd, CLONE_NEWNS) != 0) return 0;
  return close(fd) == 0 && fchdir(here) == 0 && reads_well(s);
}
static int unshares_numbers(unsigned* s) {
  return reads_well(s) && unshare(CLONE_FILES) == 0 && reads_well(s);
}
static int ends_by_number(unsigned* s) {
  if (reads_well(s)) syscall(SYS_exit, 0);
  return 0;
}

static int (*const kDeeds[])(unsigned*) = {
    just_reads,        has_child,      has_threads,  becomes_program,
    goes_without_streams, changes_root, changes_user, changes_namespace,
    unshares_numbers,  ends_by_number,
};
enum { kDeedCount = sizeof kDeeds / sizeof *kDeeds };

static int of_clone(void* argument) { return !reads_well(argument); }

/* ---- How a child is made; 0 in it, or the number of one already running. */

static pid_t make_child(unsigned how, unsigned* state) {
  static char stack[1 << 18];
  char* argv[] = {self, (char*)"child", (char*)"data", NULL};
  pid_t pid = -1;
  switch (how) {
    case 0:
      pid = vfork();
      if (pid == 0) {
        execv(self, argv);
        _exit(9);
      }
      return pid;
    case 1:
      return posix_spawn(&pid, self, NULL, NULL, argv, environ) == 0 ? pid : -1;
    case 2:
      return clone(of_clone, stack + sizeof stack, SIGCHLD, state);
    case 3:
      return _Fork();
    default:
      return fork();
  }
}

static int ends_well(pid_t pid, const char* what) {
  int status = -1;
  for (double begin = seconds(); seconds() - begin < kPatience; usleep(500)) {
    pid_t got = waitpid(pid, &status, WNOHANG);
    if (got == pid && status == 0) return 1;
    if (got != 0 && !(got < 0 && errno == EINTR)) break;
  }
  printf("%s: status %#x\n", what, status);
  if (status == -1) kill(pid, SIGABRT);
  return 0;
}

static int one_round(unsigned* state) {
  unsigned how = next_random(state) % 8, deed = next_random(state) % kDeedCount;
  unsigned childs = next_random(state);
  char what[64];
  snprintf(what, sizeof what, "way %u, deed %u", how, deed);
  fflush(stdout);
  pid_t pid = make_child(how, &childs);
  if (pid == 0) {
    stop = 0;
    exit(kDeeds[deed](&childs) ? 0 : 1);
  }
  int good = pid > 0 && ends_well(pid, what);
  if (next_random(state) % 16 == 0) {
    void* library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
    good &= library != NULL && dlclose(library) == 0;
  }
  return good;
}

int main(int argc, char** argv) {
  unsigned state = argc > 2 ? (unsigned)strtoul(argv[1], NULL, 10) : 1;
  pthread_t threads[kThreads];
  if (argc > 2 && strcmp(argv[1], "child") == 0) {
    shared_fd = open(argv[2], O_RDONLY);
    return !reads_well(&state);
  }
  if (argc < 3 || realpath(argv[0], self) == NULL) return 2;
  make_file("data", kSize, 0);
  shared_fd = open("data", O_RDONLY | O_CLOEXEC);
  handler_fd = open("data", O_RDONLY | O_CLOEXEC);
  struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  for (int i = 0; i < kThreads; ++i)
    pthread_create(&threads[i], NULL, reader, (void*)(uintptr_t)(state + i));
  unsigned rounds = 0;
  double end = seconds() + atof(argv[2]);
  alarms(100);
  while (seconds() < end && wrong_count == 0) {
    CHECK(one_round(&state));
    CHECK(!wrong_in_handler);
    ++rounds;
  }
  alarms(0);
  stop = 1;
  for (int i = 0; i < kThreads; ++i) {
    void* wrong = NULL;
    CHECK(pthread_join(threads[i], &wrong) == 0 && wrong == NULL);
  }
  printf("%u rounds\n", rounds);
  return verdict();
}
