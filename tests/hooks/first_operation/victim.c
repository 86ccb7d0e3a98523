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

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "list") == 0) {
    for (int i = 0; i < kOperationCount; ++i) puts(kOperations[i].name);
    return 0;
  }
  if (argc > 1) {
    make_file("data", 1 << 18, 0);
    return 0;
  }
  run_named("RUN_MAIN", "main");
  return 0;
}
