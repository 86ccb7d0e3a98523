/* SPDX-License-Identifier: MIT */
/* A vfork child shares the parent's memory but not its descriptors: what it
 * closes, the parent still has. An executed program must find the position at
 * which the parent left, and the parent must find where that one left. */
#include "../victim.h"

#include <sys/wait.h>

static char* self;

/* The executed program: 50 bytes at `at` from descriptor fd. */
static int reader(int fd, uint64_t at) { return !reads(fd, 50, at, 0); }

static int wait_for(pid_t pid) {
  int status = -1;
  if (pid < 0) return -1;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void inherited(void) {
  int fd = open("data", O_RDONLY);
  CHECK(reads(fd, 100, 0, 0));
  char number[12];
  snprintf(number, sizeof number, "%d", fd);
  pid_t pid = vfork();
  if (pid == 0) {
    execl(self, self, number, "100", (char*)NULL);
    _exit(9);
  }
  CHECK(wait_for(pid) == 0);
  CHECK(reads(fd, 10, 150, 0));
  close(fd);
}

/* dup2 in the child takes a close-on-exec descriptor across; then it closes
 * and replaces the parent's numbers in its own table. */
static void replaced(void) {
  int fd = open("data", O_RDONLY | O_CLOEXEC);
  int other = open("other", O_RDONLY | O_CLOEXEC);
  CHECK(reads(fd, 200, 0, 0) && reads(other, 70, 0, 7));
  pid_t pid = vfork();
  if (pid == 0) {
    if (dup2(fd, 0) != 0) _exit(8);
    close(fd);
    if (dup2(0, other) != other) _exit(7);
    execl(self, self, "0", "200", (char*)NULL);
    _exit(9);
  }
  CHECK(wait_for(pid) == 0);
  CHECK(reads(other, 30, 70, 7)); /* not what the child put there */
  CHECK(preads(other, 5000, 70000, 7));
  CHECK(reads(fd, 10, 250, 0));
  CHECK(close(fd) == 0 && close(other) == 0);
}

/* The child closes everything and opens another file under the old number. */
static void reused(int flags) {
  int fd = open("data", O_RDONLY | flags);
  CHECK(reads(fd, 300, 0, 0));
  char number[12];
  snprintf(number, sizeof number, "%d", fd);
  pid_t pid = vfork();
  if (pid == 0) {
    close(fd);
    int again = open("other", O_RDONLY);
    if (again != fd) _exit(6);
    execl(self, self, number, (char*)NULL);
    _exit(9);
  }
  CHECK(wait_for(pid) == 0);
  CHECK(reads(fd, 30, 300, 0) && preads(fd, 9000, 1234567, 0));
  close(fd);
}

/* An exec that fails, then a plain end of the child. */
static void failing(void) {
  int fd = open("data", O_RDONLY);
  CHECK(reads(fd, 40, 0, 0));
  pid_t pid = vfork();
  if (pid == 0) {
    execl("./absent", "absent", (char*)NULL);
    _exit(errno == ENOENT ? 3 : 4);
  }
  CHECK(wait_for(pid) == 3);
  CHECK(reads(fd, 40, 40, 0));
  close(fd);
}

int main(int argc, char** argv) {
  self = argv[0];
  if (argc == 2) return !reads(atoi(argv[1]), 20, 0, 7); /* "other" */
  if (argc == 3) return reader(atoi(argv[1]), strtoull(argv[2], NULL, 10));
  make_file("data", 2 << 20, 0);
  make_file("other", 1 << 20, 7);
  inherited();
  replaced();
  reused(0);
  reused(O_CLOEXEC);
  failing();
  return verdict();
}
