/* SPDX-License-Identifier: MIT */
/* A lease needs the file's owner: another user's reads are the kernel's, be
 * they of a process that was started as that user or that became it, and with
 * a file that only its former self may open. Needs root. */
#include "../victim.h"

#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>

static int become_nobody(void) {
  return setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0;
}

static void reading(int fd) {
  for (int i = 0; i < 20; ++i) {
    CHECK(reads(fd, 5000, (uint64_t)i * 5000, 0));
    CHECK(preads(fd, 60000, (uint64_t)i * 99991, 0));
  }
  posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED);
  CHECK(preads(fd, 60000, 2 << 20, 0));
  CHECK(close(fd) == 0);
}

int main(int argc, char** argv) {
  if (argc > 1) {
    reading(open("data", O_RDONLY));
    return wrong_count != 0;
  }
  make_file("data", 4 << 20, 0);
  make_file("secret", 4 << 20, 0);
  chmod("secret", 0600);
  int secret = open("secret", O_RDONLY), read_before = open("data", O_RDONLY);
  CHECK(preads(read_before, 5000, 0, 0));
  if (geteuid() != 0 || !become_nobody() || access(argv[0], X_OK) != 0) {
    puts("needs root and a build folder that others may enter");
    return 77;
  }
  reading(open("data", O_RDONLY));
  reading(read_before);
  CHECK(open("secret", O_RDONLY) == -1 && errno == EACCES);
  reading(secret);
  pid_t pid = fork();
  if (pid == 0) {
    execl(argv[0], argv[0], "child", (char*)NULL);
    _exit(4);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  CHECK(status == 0);
  return verdict();
}
