/* SPDX-License-Identifier: MIT */
/* A program that leases files itself gets them, also those that it has just
 * read, learns of a break as ever, and is told nothing of leases that are not
 * its own. */
#include "../victim.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static volatile sig_atomic_t breaks;
static void on_break(int signal) {
  (void)signal;
  ++breaks;
}

/* Read, so that it is cached, and closed again. */
static void read_and_close(const char* path) {
  int fd = open(path, O_RDONLY);
  CHECK(preads(fd, 60000, 1000, 0) && preads(fd, 60000, 500000, 0));
  CHECK(close(fd) == 0);
}

static int writer(const char* path, int read_only) {
  pid_t pid = fork();
  if (pid == 0) {
    int fd = open(path, read_only ? O_RDONLY : O_WRONLY);
    _exit(fd < 0);
  }
  int status = -1;
  /* Until it is let in: we must let go, as holders of leases do. */
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (breaks != 0) return pid;
    usleep(1000);
  }
  return status == 0 ? 0 : -1;
}

static void leased_for_writing(const char* path, int flags, int by_number) {
  read_and_close(path);
  int fd = open(path, flags), status;
  if (flags == O_RDONLY) CHECK(preads(fd, 60000, 1000, 0));
  int taken = by_number ? (int)syscall(SYS_fcntl, fd, F_SETLEASE, F_WRLCK)
                        : fcntl(fd, F_SETLEASE, F_WRLCK);
  CHECK(taken == 0);
  CHECK(fcntl(fd, F_GETLEASE) == F_WRLCK);
  /* Reading goes on, and does not break it. */
  if (flags == O_RDONLY) CHECK(preads(fd, 60000, 70000, 0));
  usleep(50000);
  CHECK(breaks == 0 && fcntl(fd, F_GETLEASE) == F_WRLCK);
  int pid = writer(path, 1);
  CHECK(pid > 0 && breaks == 1);
  CHECK(fcntl(fd, F_SETLEASE, F_UNLCK) == 0);
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  CHECK(fcntl(fd, F_GETLEASE) == F_UNLCK);
  close(fd);
  breaks = 0;
  read_and_close(path);
}

static void leased_for_reading(const char* path) {
  int status, fd = open(path, O_RDONLY);
  CHECK(preads(fd, 60000, 1000, 0) && preads(fd, 60000, 1000, 0));
  CHECK(fcntl(fd, F_GETLEASE) == F_UNLCK);
  CHECK(fcntl(fd, F_SETLEASE, F_RDLCK) == 0);
  CHECK(fcntl(fd, F_GETLEASE) == F_RDLCK);
  CHECK(preads(fd, 60000, 1000, 0));
  int other = open(path, O_RDONLY);
  CHECK(fcntl(other, F_GETLEASE) == F_UNLCK);
  CHECK(fcntl(other, F_SETLEASE, F_WRLCK) == -1 && errno == EAGAIN);
  CHECK(breaks == 0);
  int pid = writer(path, 0);
  CHECK(pid > 0 && breaks == 1);
  CHECK(fcntl(fd, F_SETLEASE, F_UNLCK) == 0);
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  close(fd);
  close(other);
  breaks = 0;
}

int main(void) {
  signal(SIGIO, on_break);
  make_file("data", 1 << 20, 0);
  for (int i = 0; i < 8; ++i) {
    char path[16];
    snprintf(path, sizeof path, "data%d", i);
    make_file(path, 1 << 20, 0);
    leased_for_writing(path, i % 2 ? O_RDWR : O_RDONLY, i / 2 % 2);
    leased_for_reading(path);
  }
  read_and_close("data"); /* the others are cached as ever */
  return verdict();
}
