/* SPDX-License-Identifier: MIT */
/* Hooks that make and end processes. From victim.c. */
#pragma once

#include "trap.h"

#include <pty.h>
#include <sched.h>
#include <spawn.h>
#include <utmp.h>

extern char** environ;

static char* kTrue[] = {(char*)"/bin/true", NULL};

static int by_execv(int fd) { return execv(kTrue[0], kTrue) + fd; }
static int by_execve(int fd) { return execve(kTrue[0], kTrue, environ) + fd; }
static int by_execvp(int fd) { return execvp("true", kTrue) + fd; }
static int by_execvpe(int fd) { return execvpe("true", kTrue, environ) + fd; }
static int by_execl(int fd) {
  return execl(kTrue[0], "true", "x", (char*)NULL) + fd;
}
static int by_execlp(int fd) {
  return execlp("true", "true", "x", (char*)NULL) + fd;
}
static int by_execle(int fd) {
  return execle(kTrue[0], "true", "x", (char*)NULL, environ) + fd;
}
static int by_fexecve(int fd) {
  int program = open(kTrue[0], O_RDONLY);
  return fexecve(program, kTrue, environ) + fd;
}
static int by_execveat(int fd) {
  return execveat(-1, kTrue[0], kTrue, environ, 0) + fd;
}
static int (*const kExecs[])(int) = {by_execv,   by_execve,  by_execvp,
                                     by_execvpe, by_execl,   by_execlp,
                                     by_execle,  by_fexecve, by_execveat};
enum { kExecCount = sizeof kExecs / sizeof kExecs[0] };

/* In both kinds of child. */
static void execs(void) {
  int fd = open("data", O_RDONLY);
  for (int i = 0; i < kExecCount; ++i) {
    CHECK(INSIDE(read(fd, got, 100)) == 100);
    CHECK(in_child(kExecs[i]) == 0);
    pid_t pid = INSIDE(vfork());
    if (pid == 0) {
      *armed = kTrap;
      kExecs[i](fd);
      _exit(91); /* it has come back */
    }
    *armed = 0;
    CHECK(ended(pid) == 0);
  }
  close(fd);
}

/* With the statistics of a process that has read. */
static int by_exit(int fd) {
  if (fd >= 0) exit(3);
  return 92;
}
static int by_quick_exit(int fd) {
  if (fd >= 0) quick_exit(3);
  return 92;
}
static int by_exit_now(int fd) {
  if (fd >= 0) _exit(3);
  return 92;
}
static int by_Exit(int fd) {
  if (fd >= 0) _Exit(3);
  return 92;
}

/* Reads and hints of a child, which begins a cache of its own. */
static int serves(int fd) {
  int again = open("data", O_RDONLY);
  if (readahead(fd, 1 << 20, 1 << 20) != 0) return 1;
  if (posix_fadvise(fd, 2 << 20, 1 << 20, POSIX_FADV_WILLNEED) != 0) return 2;
  if (!preads(fd, 60000, 1 << 20, 0) || !reads(again, 5000, 0, 0)) return 3;
  return close(again) == 0 ? 7 : 4;
}
static int after_clone(void* argument) { return serves(*(int*)argument); }

static void forks(void) {
  static char stack[1 << 18] __attribute__((aligned(16)));
  int fd = open("data", O_RDONLY);
  CHECK(INSIDE(read(fd, got, 100)) == 100);
  CHECK(in_child(serves) == 7);
  pid_t pid = INSIDE(fork());
  if (pid == 0) _exit(3);
  CHECK(ended(pid) == 3);
  pid = INSIDE(vfork());
  if (pid == 0) _exit(3);
  CHECK(ended(pid) == 3);
  pid = INSIDE(_Fork()); /* where malloc itself may be locked */
  if (pid == 0) {
    *armed = kTrap;
    _exit(serves(fd));
  }
  CHECK(ended(pid) == 7);
  *armed = kTrap;
  pid = clone(after_clone, stack + sizeof stack, SIGCHLD, &fd);
  *armed = 0;
  CHECK(ended(pid) == 7);
  close(fd);
}

static void starts(void) {
  pid_t pid = -1;
  int fd = open("data", O_RDONLY);
  posix_spawn_file_actions_t actions;
  CHECK(INSIDE(read(fd, got, 100)) == 100);
  CHECK(INSIDE(posix_spawn(&pid, kTrue[0], NULL, NULL, kTrue, environ)) == 0);
  CHECK(ended(pid) == 0);
  CHECK(INSIDE(posix_spawnp(&pid, "true", NULL, NULL, kTrue, environ)) == 0);
  CHECK(ended(pid) == 0);
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fd, 0);
  CHECK(INSIDE(posix_spawn(&pid, kTrue[0], &actions, NULL, kTrue, environ)) ==
        0);
  CHECK(ended(pid) == 0);
  posix_spawn_file_actions_destroy(&actions);
  CHECK(INSIDE(system("exit 3")) == 3 << 8);
  CHECK(INSIDE(read(fd, got, 100)) == 100);
  close(fd);
}

/* The daemon is nobody's child: a byte tells that it has come through. */
static int said[2];
static int by_daemon(int fd) {
  if (daemon(1, 1) != 0 || !preads(fd, 5000, 0, 0)) return 1;
  return write(said[1], "d", 1) != 1;
}
static int by_login_tty(int fd) {
  (void)setsid();
  int terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY), unlock = 0;
  if (ioctl(terminal, TIOCSPTLCK, &unlock) != 0) return 1;
  int other = ioctl(terminal, TIOCGPTPEER, O_RDWR | O_NOCTTY);
  if (other < 0 || login_tty(other) != 0) return 2;
  return preads(fd, 5000, 0, 0) ? 0 : 3;
}

static void terminals(void) {
  int leader = -1;
  CHECK(in_child(by_login_tty) == 0);
  pid_t pid = INSIDE(forkpty(&leader, NULL, NULL, NULL));
  if (pid == 0) {
    *armed = kTrap;
    _exit(serves(open("data", O_RDONLY)));
  }
  CHECK(ended(pid) == 7);
  close(leader);
}

static void processes(void) {
  char byte = 0;
  execs();
  CHECK(in_child(by_exit) == 3 && in_child(by_quick_exit) == 3);
  CHECK(in_child(by_exit_now) == 3 && in_child(by_Exit) == 3);
  forks();
  starts();
  CHECK(pipe(said) == 0 && in_child(by_daemon) == 0);
  close(said[1]);
  CHECK(read(said[0], &byte, 1) == 1 && byte == 'd');
  close(said[0]);
  terminals();
}
