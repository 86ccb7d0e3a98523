/* SPDX-License-Identifier: MIT */
/* The victim's side of the helper's allocator. */
#pragma once

#include "../other_names.h"

#include <sys/wait.h>

enum { kTrap = 1, kCount = 2 }; /* what an allocation does; 0: nothing */

static int no_trap;
static unsigned no_count;
static volatile int* armed = &no_trap;
static volatile unsigned* count = &no_count;

static void find_allocator(void) {
  int* flag = (int*)dlsym(RTLD_DEFAULT, "trap_armed");
  unsigned* counter = (unsigned*)dlsym(RTLD_DEFAULT, "trap_count");
  CHECK(flag != NULL && counter != NULL);
  if (flag != NULL) armed = flag;
  if (counter != NULL) count = counter;
}

/* No thread of the process may allocate during the call, also ours. */
#define INSIDE(call)              \
  ({                              \
    *armed = kTrap;               \
    __typeof__(call) r_ = (call); \
    *armed = 0;                   \
    r_;                           \
  })

/* libc itself allocates in these: as often as without the library, which the
 * comparison of the output finds. */
#define COUNTED(call)                              \
  ({                                               \
    *count = 0;                                    \
    *armed = kCount;                               \
    __typeof__(call) r_ = (call);                  \
    *armed = 0;                                    \
    printf("%s: %u allocations\n", #call, *count); \
    fflush(stdout);                                \
    r_;                                            \
  })

static char got[1 << 16];

/* What a child's end was: its exit status, or -1. */
static int ended(pid_t pid) {
  int status = -1;
  if (pid <= 0 || waitpid(pid, &status, 0) != pid) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The body in a fork child that has read by the cache; armed until it leaves,
 * with what the body returns. */
static int in_child(int (*body)(int fd)) {
  pid_t pid = fork();
  if (pid == 0) {
    int fd = open("data", O_RDONLY);
    if (!reads(fd, 5000, 0, 0) || !preads(fd, 5000, 70000, 0)) _exit(90);
    *armed = kTrap;
    _exit(body(fd));
  }
  return ended(pid);
}
