/* SPDX-License-Identifier: MIT */
/* Sandboxes refuse io_uring in several ways; others refuse leases, memory
 * advice or thread creation. Whatever is refused, reads go on as before. */
#include "../victim.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Refuses the system calls first..last with `code`. */
static int refuse(unsigned first, unsigned last, unsigned code) {
  struct sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, first, 0, 2),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, last, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | code),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog filter = {5, program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

static int all_well(void) {
  int fd = open("data", O_RDONLY), good = fd >= 0;
  for (int i = 0; i < 20; ++i) {
    good &= preads(fd, 60000, (uint64_t)i * 99991, 0);
    good &= reads(fd, 5000, (uint64_t)i * 5000, 0);
  }
  posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED);
  good &= preads(fd, 60000, 1 << 20, 0);
  return good && close(fd) == 0;
}

static int survives(unsigned first, unsigned last, unsigned code) {
  pid_t pid = fork();
  if (pid == 0) {
    alarm(20);
    if (!refuse(first, last, code)) exit(77);
    exit(!all_well());
  }
  int status = -1;
  waitpid(pid, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
    puts("seccomp filters are refused here");
    exit(77);
  }
  return status == 0;
}

int main(void) {
  make_file("data", 4 << 20, 0);
  const unsigned uring = SYS_io_uring_setup, last = SYS_io_uring_register;
  CHECK(survives(uring, last, EPERM));
  CHECK(survives(uring, last, ENOSYS));
  CHECK(survives(uring, last, ENOMEM));
  CHECK(survives(uring, last, EACCES));
  CHECK(survives(uring + 1, uring + 1, EPERM)); /* set up, then refused */
  CHECK(survives(SYS_clone, SYS_clone, EAGAIN));
  CHECK(survives(SYS_membarrier, SYS_membarrier, ENOSYS));
  CHECK(survives(SYS_madvise, SYS_madvise, EINVAL));
  CHECK(survives(SYS_close_range, SYS_close_range, ENOSYS));
  CHECK(survives(SYS_statx, SYS_statx, ENOSYS));
  CHECK(survives(SYS_mmap, SYS_mmap, ENOMEM));
  return verdict();
}
