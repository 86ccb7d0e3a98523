/* SPDX-License-Identifier: MIT */
/* Some calls work only in a process with one thread, or whose file system view
 * no other thread shares: entering a mount namespace, making a user namespace.
 * A program that has one thread must not fail for the threads that the library
 * has started. Needs root. */
#include "../victim.h"

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

int main(void) {
  make_file("data", 1 << 20, 0);
  CHECK(succeeds(make_mounts));
  CHECK(succeeds(make_numbers));
  CHECK(succeeds(enter_mounts));
  CHECK(succeeds(make_users));
  return verdict();
}
