/* SPDX-License-Identifier: MIT */
/* Record locks belong to a descriptor table. A process with one thread has
 * nothing to unshare, so that the kernel keeps its table, and its locks, when
 * it asks for one of its own; the library's I/O must not change that. */
#include "../victim.h"

#include <linux/close_range.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static int unshare_flag(void) { return unshare(CLONE_FILES); }
static int unshare_raw(void) { return (int)syscall(SYS_unshare, CLONE_FILES); }
static int range_flag(void) {
  return close_range(900, ~0U, CLOSE_RANGE_UNSHARE);
}
static int range_raw(void) {
  return (int)syscall(SYS_close_range, 900, ~0U, CLOSE_RANGE_UNSHARE);
}

/* Reads of holes that end in mid-page: of those the kernel's workers, who share
 * the table of the thread that asked, do the end. */
static void read_all(void) {
  static char bytes[1 << 16];
  int fd = open("data", O_RDONLY);
  CHECK(pread(fd, bytes, 5000, 0) == 5000);
  CHECK(pread(fd, bytes, 5000, 40000) == 5000);
  CHECK(pread(fd, bytes, sizeof bytes, (1 << 20) - 1000) == 1777);
  close(fd);
}

static int lock(int fd, int command, int type) {
  struct flock area = {.l_type = (short)type, .l_whence = SEEK_SET,
                       .l_len = 100};
  int result = fcntl(fd, command, &area);
  return command == F_GETLK && result == 0 ? area.l_type : result;
}

/* A process that had threads has one again; libc remembers that it had. */
static void *nothing(void *argument) { return argument; }
static void have_had_a_thread(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, nothing, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  usleep(20000); /* it gives up the table a little after it can be joined */
}

static int locks_stay(int (*call)(void), int threaded) {
  pid_t pid = fork();
  if (pid == 0) {
    if (threaded) have_had_a_thread();
    read_all();
    int fd = open("locked", O_RDWR);
    if (lock(fd, F_SETLK, F_WRLCK) != 0) exit(2);
    if (call() != 0) exit(3);
    if (lock(fd, F_GETLK, F_RDLCK) != F_UNLCK) exit(4);
    if (lock(fd, F_SETLK, F_UNLCK) != 0) exit(5);
    pid_t other = fork();
    if (other == 0) exit(lock(fd, F_GETLK, F_RDLCK) != F_UNLCK);
    int status = -1;
    waitpid(other, &status, 0);
    exit(status == 0 ? 0 : 6);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  if (status != 0) printf("status %x\n", status);
  return status == 0;
}

int main(void) {
  make_file("data", 0, 0);
  CHECK(truncate("data", (1 << 20) + 777) == 0);
  make_file("locked", 4096, 1);
  for (int i = 0; i < 10; ++i) {
    CHECK(locks_stay(unshare_flag, i % 2));
    CHECK(locks_stay(unshare_raw, i % 2));
    CHECK(locks_stay(range_flag, i % 2));
    CHECK(locks_stay(range_raw, i % 2));
  }
  return verdict();
}
