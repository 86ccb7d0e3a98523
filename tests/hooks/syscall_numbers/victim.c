/* SPDX-License-Identifier: MIT */
/* syscall(2) is a variadic way past every other hook: descriptors opened,
 * moved, read and closed by number must stay consistent with those handled by
 * name, processes made by number must find their positions, and every other
 * number must arrive with all six arguments. */
#include "../victim.h"

#include <linux/openat2.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { kSize = 1 << 20 };
static char got[1 << 16];

static void reading(void) {
  int fd = (int)syscall(SYS_openat, AT_FDCWD, "a", O_RDONLY);
  CHECK(syscall(SYS_read, fd, got, 100) == 100 && same_bytes(got, 100, 0, 0));
  CHECK(reads(fd, 50, 100, 0));
  CHECK(syscall(SYS_lseek, fd, 0, SEEK_CUR) == 150);
  CHECK(syscall(SYS_lseek, fd, 500, SEEK_SET) == 500 && reads(fd, 9, 500, 0));
  CHECK(syscall(SYS_pread64, fd, got, 5000, 70000) == 5000);
  CHECK(same_bytes(got, 5000, 70000, 0));
  struct iovec parts[2] = {{got, 10}, {got + 10, 300}};
  CHECK(syscall(SYS_readv, fd, parts, 2) == 310 &&
        same_bytes(got, 310, 509, 0));
  CHECK(syscall(SYS_preadv, fd, parts, 2, 4L, 0L) == 310);
  CHECK(same_bytes(got, 310, 4, 0));
  CHECK(syscall(SYS_preadv2, fd, parts, 2, 99L, 0L, 0) == 310);
  CHECK(same_bytes(got, 310, 99, 0));
  CHECK(syscall(SYS_preadv2, fd, parts, 2, -1L, -1L, 0) == 310);
  CHECK(same_bytes(got, 310, 819, 0));
  CHECK(syscall(SYS_preadv2, fd, parts, 2, 0L, 0L, 1 << 30) == -1 &&
        errno == EOPNOTSUPP);
  CHECK(syscall(SYS_readv, fd, parts, 5000L) == -1 && errno == EINVAL);
  CHECK(syscall(SYS_pread64, fd, got, 10, -1L) == -1 && errno == EINVAL);
  CHECK(syscall(SYS_read, fd, (void*)8, 10) == -1 && errno == EFAULT);
  CHECK(syscall(SYS_fadvise64, fd, 0L, 0L, POSIX_FADV_WILLNEED) == 0);
  CHECK(syscall(SYS_fadvise64, fd, 0L, 0L, 77) == -1 && errno == EINVAL);
  CHECK(syscall(SYS_readahead, fd, 0L, 65536L) == 0);
  CHECK(syscall(SYS_close, fd) == 0 && read(fd, got, 1) == -1);
  CHECK(syscall(SYS_close, fd) == -1 && errno == EBADF);
  CHECK(syscall(SYS_read, -1, got, 1) == -1 && errno == EBADF);
}

/* By number in one place, by name in another. */
static void numbers(void) {
  struct open_how how = {.flags = O_RDONLY};
  int fd = (int)syscall(SYS_openat2, AT_FDCWD, "a", &how, sizeof how);
  CHECK(reads(fd, 100, 0, 0));
  int twin = (int)syscall(SYS_dup, fd);
  CHECK(reads(twin, 10, 100, 0) && reads(fd, 10, 110, 0));
  CHECK(syscall(SYS_dup3, fd, 50, O_CLOEXEC) == 50 && reads(50, 10, 120, 0));
  CHECK(syscall(SYS_fcntl, fd, F_DUPFD, 60) == 60 && reads(60, 10, 130, 0));
  CHECK(syscall(SYS_fcntl, fd, F_GETFD) == 0);
  CHECK((syscall(SYS_fcntl, fd, F_GETFL) & O_ACCMODE) == O_RDONLY);
  int other = open("b", O_RDONLY);
  CHECK(reads(other, 40, 0, 7));
  CHECK(syscall(SYS_dup3, other, fd, 0) == fd && reads(fd, 10, 40, 7));
  CHECK(reads(twin, 10, 140, 0));
  CHECK(syscall(SYS_dup3, 999, other, 0) == -1 && reads(other, 10, 50, 7));
  CHECK(syscall(SYS_close_range, 50, 70, 0) == 0 && fcntl(60, F_GETFD) == -1);
  CHECK(open("b", O_RDONLY) != 50 && dup2(twin, 50) == 50);
  CHECK(syscall(SYS_close_range, 3, ~0u, 0) == 0);
  fd = open("b", O_RDONLY);
  CHECK(fd == 3 && reads(fd, 10, 0, 7));
  CHECK(syscall(SYS_openat, AT_FDCWD, "absent", O_RDONLY) == -1 &&
        errno == ENOENT);
  /* Closed by number, opened by number: not the old file. */
  CHECK(syscall(SYS_close, fd) == 0);
  CHECK(syscall(SYS_openat, AT_FDCWD, "a", O_RDONLY) == fd);
  CHECK(preads(fd, 5000, 70000, 0) && reads(fd, 99, 0, 0));
  close(fd);
}

static int wait_for(pid_t pid) {
  int status = -1;
  if (pid > 0) waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void processes(void) {
  int fd = open("a", O_RDONLY);
  CHECK(reads(fd, 100, 0, 0));
#ifdef SYS_fork
  pid_t forked = (pid_t)syscall(SYS_fork);
  if (forked == 0) syscall(SYS_exit_group, !reads(fd, 50, 100, 0));
  CHECK(wait_for(forked) == 0 && reads(fd, 10, 150, 0));
#endif
  CHECK(lseek(fd, 160, SEEK_SET) == 160);
  int other = open("b", O_RDONLY);
  CHECK(reads(other, 100, 0, 7));
  pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0L, 0L, 0L, 0L);
  if (pid == 0) _exit(!reads(other, 50, 100, 7));
  CHECK(wait_for(pid) == 0 && reads(other, 10, 150, 7));
  /* All five arguments arrive: the last two in the order of the CPU. */
  pid_t parents = 0;
  static pid_t childs;
#if defined(__x86_64__)
  pid = (pid_t)syscall(SYS_clone,
                       SIGCHLD | CLONE_PARENT_SETTID | CLONE_CHILD_SETTID, 0L,
                       &parents, &childs, 0L);
#else
  pid = (pid_t)syscall(SYS_clone,
                       SIGCHLD | CLONE_PARENT_SETTID | CLONE_CHILD_SETTID, 0L,
                       &parents, 0L, &childs);
#endif
  if (pid == 0) _exit(childs != getpid());
  CHECK(wait_for(pid) == 0 && parents == pid);
  int third = open("b", O_RDONLY);
  CHECK(reads(third, 100, 0, 7));
  struct clone_args args = {.exit_signal = SIGCHLD};
  pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
  if (pid == 0) _exit(!reads(third, 50, 100, 7));
  CHECK(wait_for(pid) == 0 && reads(third, 10, 150, 7));
  CHECK(syscall(SYS_clone3, NULL, 0L) == -1);
  CHECK(syscall(SYS_clone3, (void*)8, sizeof args) == -1 && errno == EFAULT);
  close(fd);
  close(other);
  close(third);
}

/* exit(2) ends the program's only thread, hence the process. */
static void exit_of_one_thread(void) {
  pid_t pid = fork();
  if (pid == 0) {
    int fd = open("a", O_RDONLY);
    alarm(20);
    syscall(SYS_exit, preads(fd, 5000, 0, 0) ? 6 : 7);
  }
  CHECK(wait_for(pid) == 6);
}

static int run_on_stack(void* argument) {
  alarm(20);
  int fd = open("b", O_RDONLY);
  if (!preads(fd, 5000, 0, 7) || close(fd) != 0) return 2;
  return !reads(*(int*)argument, 50, 100, 0);
}
static void on_other_stack(void) {
  static char stack[1 << 17] __attribute__((aligned(16)));
  int fd = open("a", O_RDONLY);
  CHECK(reads(fd, 100, 0, 0));
  CHECK(wait_for(clone(run_on_stack, stack + sizeof stack, SIGCHLD, &fd)) == 0);
  CHECK(reads(fd, 10, 150, 0));
  CHECK(lseek(fd, 100, SEEK_SET) == 100);
  CHECK(wait_for(clone(run_on_stack, stack + sizeof stack,
                       CLONE_VM | CLONE_VFORK | SIGCHLD, &fd)) == 0);
  CHECK(reads(fd, 10, 150, 0));
  close(fd);
}

static void others(void) {
  CHECK(syscall(SYS_getpid) == getpid());
  CHECK(syscall(9999L) == -1 && errno == ENOSYS);
  CHECK(syscall(-1L) == -1 && errno == ENOSYS);
  /* All six arguments. */
  int fd = open("a", O_RDONLY);
  char* map = (char*)syscall(SYS_mmap, NULL, 4096L, (long)PROT_READ,
                             (long)MAP_PRIVATE, (long)fd, 8192L);
  CHECK(map != MAP_FAILED && same_bytes(map, 4096, 8192, 0));
  loff_t from = 5000, to = 0;
  int made = open("new", O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(syscall(SYS_copy_file_range, fd, &from, made, &to, 3000L, 0L) == 3000);
  CHECK(preads(made, 3000, 0, 0) == 0 && pread(made, got, 3000, 0) == 3000);
  CHECK(same_bytes(got, 3000, 5000, 0) && from == 8000 && to == 3000);
  CHECK(reads(fd, 100, 0, 0));
  CHECK(syscall(SYS_sendfile, made, fd, NULL, 50L) == 50);
  CHECK(reads(fd, 10, 150, 0));
  close(fd);
  close(made);
}

int main(void) {
  close_range(3, ~0u, 0);
  make_file("a", kSize, 0);
  make_file("b", kSize, 7);
  reading();
  numbers();
  processes();
  on_other_stack();
  exit_of_one_thread();
  others();
  return verdict();
}
