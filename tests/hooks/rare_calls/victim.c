/* SPDX-License-Identifier: MIT */
/* Names of libc that hardly any program calls: each on a cached file, or on
 * what it is for, with its errors. The kernel's answer is what is printed
 * without the library. */
#include "actions.h"
#include "mappings.h"
#include "names.h"
#include "terminals.h"

#include <sys/syscall.h>

/* Locks on files that are not cached install nothing, whatever they name. */
static void unarmed(void) {
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_CUR};
  struct sigaction now; /* larger than the kernel's own, of which the handler
                         * comes first */
  int fd = open("locked", O_RDWR | O_CREAT, 0600);
  CHECK(fcntl(fd, F_SETLK, &whole) == 0 && lockf(fd, F_ULOCK, 0) == 0);
  CHECK(fcntl(fd, F_SETLK, (void*)8) == -1 && errno == EFAULT);
  CHECK(syscall(SYS_rt_sigaction, SIGSEGV, NULL, &now, 8L) == 0);
  CHECK(now.sa_handler == SIG_DFL);
  close(fd);
}

int main(void) {
  make_file("data", 1 << 18, 0);
  make_file("locked", 1 << 16, 0);
  unarmed();
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
