/* SPDX-License-Identifier: MIT */
/* A program that allows itself only the system calls it makes is not ended for
 * calls of ours, and goes on reading rightly; nor are its children. */
#include "../victim.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define ALLOW(call)                                       \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), \
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* What this program needs from there on. */
static struct sock_filter rules[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    ALLOW(read),       ALLOW(pread64),    ALLOW(lseek), ALLOW(close),
    ALLOW(exit_group), ALLOW(exit),       ALLOW(write), ALLOW(clone),
    ALLOW(wait4),      ALLOW(openat),     ALLOW(clone3),
    ALLOW(set_robust_list), ALLOW(rt_sigprocmask), ALLOW(rseq),
    ALLOW(gettid),     ALLOW(futex),      ALLOW(getpid),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};
static struct sock_fprog program = {sizeof rules / sizeof *rules, rules};

static int by_prctl(void) {
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
static int by_number(void) {
  /* Asking whether there are filters comes first, as in libseccomp. */
  syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL);
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}
static int on_all_threads(void) {
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                 SECCOMP_FILTER_FLAG_TSYNC, &program);
}
static int strictly(void) {
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0);
}

static int reads_on(int fd) {
  if (lseek(fd, 300000, SEEK_SET) != 300000) return 1;
  if (!reads(fd, 60000, 300000, 0) || !preads(fd, 60000, 1000, 0)) return 2;
  int other = open("data", O_RDONLY);
  if (!reads(other, 60000, 0, 0) || !preads(other, 60000, 1, 0)) return 3;
  return close(other) == 0 ? 0 : 4;
}

/* Data of a child, not the parent's: nothing must make it start anew. */
static int child_reads_on(int fd) {
  pid_t pid = fork();
  if (pid == 0) _exit(reads_on(fd));
  int status = -1;
  waitpid(pid, &status, 0);
  return status == 0 ? 0 : 5;
}

static int fails(int (*limit)(void)) {
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    int fd = open("data", O_RDONLY), strict = limit == strictly;
    if (!reads(fd, 60000, 0, 0) || !preads(fd, 60000, 1000, 0)) _exit(10);
    if (limit() != 0) _exit(11);
    if (!strict) _exit(reads_on(fd) | child_reads_on(fd));
    static char buffer[60000];
    long n = read(fd, buffer, sizeof buffer);
    int right = n == sizeof buffer && same_bytes(buffer, n, 60000, 0);
    syscall(SYS_exit, right ? 0 : 12);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  if (status != 0) printf("status %#x\n", status);
  return status;
}

static volatile int stop;
static void* reader(void* argument) {
  int fd = *(int*)argument, wrong = 0;
  for (unsigned i = 0; !stop; ++i) wrong |= !preads(fd, 4096, i * 7 % 900000, 0);
  return wrong ? argument : NULL;
}

/* The others go on reading while the engine ends. */
static int with_threads(void) {
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    pthread_t threads[4];
    void* wrong;
    int fd = open("data", O_RDONLY), failed = 0;
    for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, reader, &fd);
    usleep(20000);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || by_number()) _exit(11);
    if (reads_on(fd) != 0) _exit(12);
    for (volatile int i = 0; i < 10000000; ++i) continue;
    stop = 1;
    (void)wrong;
    _exit(failed);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  return status;
}

int main(void) {
  make_file("data", 1 << 20, 0);
  /* What asks only, changes nothing. */
  CHECK(prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0);
  CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) == -1);
  CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, 8) == -1);
  int fd = open("data", O_RDONLY);
  CHECK(preads(fd, 60000, 1000, 0) && preads(fd, 60000, 1000, 0));
  CHECK(fails(by_prctl) == 0);
  CHECK(fails(by_number) == 0);
  CHECK(fails(on_all_threads) == 0);
  CHECK(fails(strictly) == 0);
  CHECK(with_threads() == 0);
  CHECK(preads(fd, 60000, 1000, 0));
  return verdict();
}
