/* SPDX-License-Identifier: MIT */
/* Hooks of identity, namespaces and signal actions. From victim.c. */
#pragma once

#include "trap.h"

#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>

enum { kOther = 4242 };

static int by_setuid(int fd) { return fd < 0 || setuid(kOther); }
static int by_setgid(int fd) { return fd < 0 || setgid(kOther); }
static int by_seteuid(int fd) { return fd < 0 || seteuid(kOther); }
static int by_setegid(int fd) { return fd < 0 || setegid(kOther); }
static int by_setreuid(int fd) { return fd < 0 || setreuid(5, kOther); }
static int by_setregid(int fd) { return fd < 0 || setregid(5, kOther); }
static int by_setresuid(int fd) { return fd < 0 || setresuid(5, 6, 7); }
static int by_setresgid(int fd) { return fd < 0 || setresgid(5, 6, 7); }
static int by_setfsuid(int fd) { return fd < 0 || setfsuid(kOther) != 0; }
static int by_setfsgid(int fd) { return fd < 0 || setfsgid(kOther) != 0; }
static int by_setgroups(int fd) {
  const gid_t groups[] = {7, 8, 4243};
  return fd < 0 || setgroups(3, groups);
}
static int by_capset(int fd) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
  return fd < 0 || capset(&header, none);
}
static int by_prctl(int fd) {
  return fd < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}
static int by_initgroups(int fd) {
  *armed = 0;
  return fd < 0 || COUNTED(initgroups("daemon", 4244));
}
static int by_unshare(int fd) {
  if (unshare(CLONE_FS | CLONE_FILES) != 0) return 1;
  return fd < 0 || unshare(CLONE_NEWUTS);
}
static int by_setns(int fd) {
  int space = open("/proc/self/ns/uts", O_RDONLY);
  return fd < 0 || space < 0 || setns(space, CLONE_NEWUTS);
}

static int (*const kChanges[])(int) = {
    by_setuid,   by_setgid,     by_seteuid,   by_setegid,
    by_setreuid, by_setregid,   by_setresuid, by_setresgid,
    by_setfsuid, by_setfsgid,   by_setgroups, by_capset,
    by_prctl,    by_initgroups, by_unshare,   by_setns};
enum { kChangeCount = sizeof kChanges / sizeof kChanges[0] };

/* Each in a child of its own. Without privileges some are refused, which is
 * compared as well. */
static void changes(void) {
  for (int i = 0; i < kChangeCount; ++i) {
    int result = in_child(kChanges[i]);
    CHECK(result == 0 || (result == 1 && geteuid() != 0));
  }
}

static void handler(int number) { (void)number; }

/* Ours are installed as well by now, as all of this comes after reads. */
static void actions(void) {
  struct sigaction action = {0}, old;
  action.sa_handler = handler;
  const int numbers[] = {SIGUSR1, SIGSEGV, SIGBUS};
  for (int i = 0; i < 3; ++i) {
    int number = numbers[i];
    CHECK(INSIDE(sigaction(number, &action, &old)) == 0);
    CHECK(old.sa_handler == SIG_DFL);
    CHECK(INSIDE(__sigaction(number, &old, &action)) == 0);
    CHECK(action.sa_handler == handler);
    CHECK(INSIDE(signal(number, handler)) == SIG_DFL);
    CHECK(INSIDE(bsd_signal(number, SIG_IGN)) == handler);
    CHECK(INSIDE(ssignal(number, SIG_DFL)) == SIG_IGN);
  }
}
