/* SPDX-License-Identifier: MIT */
/* Another preload library, whose constructor makes the call. */
#include "operations.h"

__attribute__((constructor(101))) static void construct(void) {
  run_named("RUN_CONSTRUCTOR", "constructor");
}
