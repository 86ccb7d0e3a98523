/* SPDX-License-Identifier: MIT */
/* A process ends when the last of the program's threads has ended, in whatever
 * way, with the status that the kernel has for it: no thread of ours keeps it. */
#include "../victim.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

static int reads_some(void) {
  int fd = open("data", O_RDONLY);
  return preads(fd, 60000, 1000, 0) && preads(fd, 60000, 1000, 0);
}

static void* soon_gone(void* unused) {
  usleep(30000);
  return unused;
}
static void* soon_gone_by_number(void* unused) {
  usleep(30000);
  syscall(SYS_exit, 9);
  return unused;
}

/* The compiler's own system call: nothing can see it. */
static void exit_unseen(long status) {
#if defined(__x86_64__)
  asm volatile("syscall" : : "a"(SYS_exit), "D"(status) : "rcx", "r11");
#else
  register long number asm("x8") = SYS_exit;
  register long code asm("x0") = status;
  asm volatile("svc #0" : : "r"(number), "r"(code));
#endif
}

static void alone(void) { syscall(SYS_exit, 3); }
static void alone_unseen(void) { exit_unseen(3); }
static void first_of_two(void) {
  pthread_t other;
  pthread_create(&other, NULL, soon_gone, NULL);
  syscall(SYS_exit, 3);
}
static void both_by_number(void) {
  pthread_t other;
  pthread_create(&other, NULL, soon_gone_by_number, NULL);
  syscall(SYS_exit, 3);
}
static void first_unseen(void) {
  pthread_t other;
  pthread_create(&other, NULL, soon_gone_by_number, NULL);
  exit_unseen(3);
}
static void by_libc(void) {
  pthread_t other;
  pthread_create(&other, NULL, soon_gone, NULL);
  pthread_exit(NULL);
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* -1 when it has to be ended after ten seconds. */
static int status_after(void (*leave)(void)) {
  int status = -1;
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    if (!reads_some()) _exit(99);
    leave();
    _exit(98);
  }
  for (double begin = seconds(); seconds() - begin < 10; usleep(2000)) {
    if (waitpid(pid, &status, WNOHANG) == pid) return WEXITSTATUS(status);
  }
  kill(pid, 9);
  waitpid(pid, &status, 0);
  return -1;
}

int main(void) {
  make_file("data", 1 << 20, 0);
  CHECK(reads_some());
  printf("%d %d %d %d %d %d\n", status_after(alone), status_after(alone_unseen),
         status_after(first_of_two), status_after(both_by_number),
         status_after(first_unseen), status_after(by_libc));
  return verdict();
}
