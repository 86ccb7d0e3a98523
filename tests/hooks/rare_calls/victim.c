/* SPDX-License-Identifier: MIT */
/* Names of libc that hardly any program calls: each on a cached file, or on
 * what it is for, with its errors. The kernel's answer is what is printed
 * without the library. */
#include "actions.h"
#include "mappings.h"
#include "names.h"
#include "terminals.h"

int main(void) {
  make_file("data", 1 << 18, 0);
  make_file("locked", 1 << 16, 0);
  opens();
  moves();
  numbers();
  holding(locks_by_lockf);
  holding(locks_by_lockf64);
  holding(locks_by_fcntl);
  receives();
  advice();
  remaps();
  actions();
  logins();
  forks();
  return verdict();
}
