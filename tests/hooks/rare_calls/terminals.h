/* SPDX-License-Identifier: MIT */
/* login_tty and forkpty, which replace 0 to 2 inside libc: there is a cached
 * file under 0 before. */
#pragma once

#include "show.h"

#include <pty.h>
#include <sys/ioctl.h>
#include <utmp.h>

static int terminal(int* leader) {
  int unlock = 0;
  *leader = open("/dev/ptmx", O_RDWR | O_NOCTTY);
  CHECK(ioctl(*leader, TIOCSPTLCK, &unlock) == 0);
  return ioctl(*leader, TIOCGPTPEER, O_RDWR | O_NOCTTY);
}

/* What is said on the terminal, up to its end. */
static void echo_of(int leader) {
  char text[256];
  size_t length = 0;
  for (ssize_t n = 1; n > 0 && length < sizeof text - 1;) {
    n = read(leader, text + length, sizeof text - 1 - length);
    if (n > 0) length += (size_t)n;
  }
  text[length] = 0;
  printf("said: %s.\n", text);
  fflush(stdout);
}

/* `out` is the file that has been standard output. */
static int after_login(int fd, int out) {
  stdout = fdopen(out, "w");
  SHOW(isatty(0) + isatty(1) + isatty(2));
  SHOW(pread(0, got, 100, 0));
  SHOW(lseek(0, 0, SEEK_CUR));
  SHOW(read(fd, got, 100));
  SHOW(__lseek(fd, 0, SEEK_CUR));
  SHOW(dup2(fd, 0));
  SHOW(read(0, got, 100));
  SHOW(write(1, "logged in", 9));
  return wrong_count != 0;
}

static void logs_in(int fd, int leader, int other) {
  int out = dup(1);
  setsid();
  close(leader);
  SHOW(login_tty(other));
  int code = after_login(fd, out);
  SHOW(close(other));
  SHOW(open("data", O_RDONLY) == other);
  SHOW(__read(other, got, 100));
  _exit(code);
}

static void logins(void) {
  int leader, status = -1, fd = cached(), other = terminal(&leader);
  close(0);
  SHOW(cached());
  SHOW(login_tty(-1));
  pid_t pid = fork();
  if (pid == 0) logs_in(fd, leader, other);
  close(other);
  CHECK(waitpid(pid, &status, 0) == pid);
  SHOW(status);
  echo_of(leader);
  SHOW(read(fd, got, 100));
  SHOW(read(0, got, 100));
  SHOW_CHILD(SHOW(login_tty(fd)); SHOW(read(fd, got, 100)));
  SHOW(read(fd, got, 100));
  close(leader);
  close(fd);
}

static void forks(void) {
  int leader = -1, status = -1, fd = cached(), out = dup(1);
  struct winsize size = {.ws_row = 33, .ws_col = 77};
  char name[64] = "";
  SHOW(read(0, got, 100));
  errno = 77;
  pid_t pid = forkpty(&leader, name, NULL, &size);
  if (pid == 0) {
    struct winsize now = {0};
    ioctl(0, TIOCGWINSZ, &now);
    int code = after_login(fd, out);
    SHOW(now.ws_row * 1000 + now.ws_col);
    _exit(code);
  }
  SHOW(pid > 0 && strncmp(name, "/dev/pts/", 9) == 0);
  echo_of(leader);
  CHECK(waitpid(pid, &status, 0) == pid);
  SHOW(status);
  SHOW(read(fd, got, 100));
  SHOW(read(0, got, 100)); /* still the file here */
  close(leader);
  close(out);
  close(fd);
}
