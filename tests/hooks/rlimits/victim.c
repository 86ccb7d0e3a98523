/* SPDX-License-Identifier: MIT */
/* No locked memory, few descriptors, little address space, no further process:
 * each limit is set before the program starts, and nothing may fail for it
 * that does not fail without the library. */
#include "../victim.h"

#include <sys/resource.h>
#include <sys/wait.h>

struct Limit {
  const char* name;
  int resource;
  rlim_t value;
};
static const struct Limit kLimits[] = {
    {"memlock", RLIMIT_MEMLOCK, 0},   {"nofile", RLIMIT_NOFILE, 32},
    {"nofile-few", RLIMIT_NOFILE, 5}, {"as", RLIMIT_AS, 64 << 20},
    {"data", RLIMIT_DATA, 16 << 20},  {"nproc", RLIMIT_NPROC, 1},
    {"fsize", RLIMIT_FSIZE, 0},       {"stack", RLIMIT_STACK, 128 << 10},
    {"as-1G", RLIMIT_AS, 1 << 30},    {"data-1G", RLIMIT_DATA, 1 << 30},
};
enum { kLimitCount = sizeof kLimits / sizeof kLimits[0] };

static void child(void) {
  int fd = open("data", O_RDONLY);
  CHECK(fd == 3);
  for (int i = 0; i < 30; ++i) {
    CHECK(reads(fd, 5000, (uint64_t)i * 5000, 0));
    CHECK(preads(fd, 60000, (uint64_t)i * 99991, 0));
  }
  if (getenv("ROOM") != NULL) CHECK(malloc((size_t)atol(getenv("ROOM"))));
  /* Every number below the limit is the program's. */
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur > 32) return;
  for (rlim_t i = 4; i < limit.rlim_cur; ++i) {
    int next = open("data", O_RDONLY);
    CHECK(next == (int)i && preads(next, 4000, i * 4000, 0));
  }
  CHECK(open("data", O_RDONLY) == -1 && errno == EMFILE);
}

static int run(char* self, const struct Limit* limit) {
  pid_t pid = fork();
  if (pid == 0) {
    struct rlimit value = {limit->value, limit->value};
    if (setrlimit(limit->resource, &value) != 0) exit(3);
    if (limit->value == 1 << 30) setenv("ROOM", "805306368", 1); /* 768 MiB */
    execl(self, self, "child", (char*)NULL);
    exit(4);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  return status;
}

int main(int argc, char** argv) {
  if (argc > 1) {
    child();
    return wrong_count != 0;
  }
  close_range(3, ~0u, 0); /* what the tests' starter left open */
  make_file("data", 4 << 20, 0);
  for (int i = 0; i < kLimitCount; ++i) {
    int status = run(argv[0], &kLimits[i]);
    if (status != 0) printf("%s: status %#x\n", kLimits[i].name, status);
    CHECK(status == 0);
  }
  return verdict();
}
