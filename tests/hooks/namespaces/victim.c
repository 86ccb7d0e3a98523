/* SPDX-License-Identifier: MIT */
/* Some calls work only in a process with one thread, or whose file system view
 * no other thread shares: entering a mount namespace, making a user namespace.
 * A program that has one thread must not fail for the threads that the library
 * has started. Needs root. */
#include "../victim.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>

/* In a child each, because neither can be undone. */
static int succeeds(int (*call)(void)) {
  pid_t pid = fork();
  if (pid == 0) {
    int fd = open("data", O_RDONLY);
    if (!preads(fd, 60000, 1000, 0) || !preads(fd, 60000, 1000, 0)) exit(2);
    int result = call();
    if (!preads(fd, 60000, 500000, 0)) exit(3);
    exit(result == 0 ? 0 : errno == EPERM ? 77 : 4);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
    puts("namespaces are refused here");
    exit(77);
  }
  return status == 0;
}

static int enter_mounts(void) {
  return setns(open("/proc/self/ns/mnt", O_RDONLY), CLONE_NEWNS);
}
static int make_mounts(void) { return unshare(CLONE_NEWNS); }
static int make_users(void) { return unshare(CLONE_NEWUSER); }
static int make_numbers(void) { return unshare(CLONE_FILES); }

/* Refused to a program with two threads, which keeps what it has. */
static void* sleeps(void* unused) {
  pause();
  return unused;
}
static int make_users_refused(void) {
  pthread_t other;
  pthread_create(&other, NULL, sleeps, NULL);
  return unshare(CLONE_NEWUSER) == -1 && errno == EINVAL ? 0 : 1;
}
/* Into another's, which waits for the end of its input. */
static int enter_users(void) {
  int ends[2], back[2];
  char path[64], ready = 0;
  if (pipe(ends) != 0 || pipe(back) != 0) return 1;
  pid_t pid = fork();
  if (pid == 0) {
    close(ends[1]);
    ready = unshare(CLONE_NEWUSER) == 0;
    if (write(back[1], &ready, 1) != 1) _exit(1);
    _exit(read(ends[0], &ready, 1) != 0);
  }
  if (read(back[0], &ready, 1) != 1 || !ready) return errno = EPERM, 1;
  snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
  int space = open(path, O_RDONLY), result = setns(space, 0);
  close(ends[1]);
  waitpid(pid, NULL, 0);
  return result;
}

/* Whatever it says, as without the library. */
static int enter_time(void) {
  return setns(open("/proc/self/ns/time", O_RDONLY), CLONE_NEWTIME);
}
static int enter_time_untold(void) {
  return setns(open("/proc/self/ns/time", O_RDONLY), 0);
}

int main(void) {
  make_file("data", 1 << 20, 0);
  CHECK(succeeds(make_mounts));
  CHECK(succeeds(make_numbers));
  CHECK(succeeds(enter_mounts));
  CHECK(succeeds(make_users));
  CHECK(succeeds(make_users_refused));
  CHECK(succeeds(enter_users));
  if (access("/proc/self/ns/time", F_OK) == 0) {
    CHECK(succeeds(enter_time));
    CHECK(succeeds(enter_time_untold));
  }
  return verdict();
}
