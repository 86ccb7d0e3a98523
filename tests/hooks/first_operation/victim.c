/* SPDX-License-Identifier: MIT */
/* A hook can be the first thing that runs in a process: in .preinit_array,
 * before any library's constructor, ours included; in another preload
 * library's constructor (helper.c); first in main; after static destruction.
 * Each interposed call is tried in all four places by the runner. */
#include "operations.h"

static void before_all(int argc, char** argv, char** envp) {
  (void)argc;
  (void)argv;
  environ = envp;
  run_named("RUN_PREINIT", "preinit");
}
__attribute__((section(".preinit_array"),
               used)) static void (*const kFirst)(int, char**,
                                                  char**) = before_all;

__attribute__((destructor(101))) static void after_all(void) {
  run_named("RUN_LAST", "last");
}

/* One operation in one place, in a process that has ten seconds. */
static void run_one(const char* self, const char* operation,
                    const char* place) {
  pid_t pid = fork();
  if (pid == 0) {
    alarm(10);
    if (setenv(place, operation, 1) != 0 ||
        dup2(open("data", O_RDONLY | O_CLOEXEC), 0) != 0) {
      _exit(97);
    }
    execl(self, self, (char*)NULL);
    _exit(96);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  if (status != 0) printf("%s %s: status %x\n", operation, place, status);
  fflush(stdout);
  unlink("new");
}

/* All operations in one place. The runner itself is not preloaded. */
static void run_all(const char* self, const char* preload, const char* place) {
  setenv("LD_PRELOAD", preload, 1);
  for (int i = 0; i < kOperationCount; ++i) {
    run_one(self, kOperations[i].name, place);
  }
}

int main(int argc, char** argv) {
  if (argc > 3) {
    run_all(argv[1], argv[2], argv[3]);
  } else if (argc > 1 && strcmp(argv[1], "list") == 0) {
    for (int i = 0; i < kOperationCount; ++i) puts(kOperations[i].name);
  } else if (argc > 1) {
    make_file("data", 1 << 18, 0);
  } else {
    run_named("RUN_MAIN", "main");
  }
  return 0;
}
