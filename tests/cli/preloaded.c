/* SPDX-License-Identifier: MIT
 * Shows that it was preloaded: says so before the program begins. */
#include <unistd.h>

__attribute__((constructor)) static void enter(void) {
  static const char text[] = "preloaded\n";
  if (write(1, text, sizeof text - 1) < 0) _exit(99);
}
