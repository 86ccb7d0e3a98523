/* SPDX-License-Identifier: MIT */
/* A library that costs each start 1.5 ms: of the processor's time if it is
 * built with BUSY, otherwise asleep. */
#include <time.h>

static long ns(const struct timespec* t) {
  return t->tv_sec * 1000000000L + t->tv_nsec;
}

__attribute__((constructor)) static void delay(void) {
  struct timespec begin, now = {0, 1500000};
#ifdef BUSY
  long end;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
  end = ns(&begin) + ns(&now);
  do clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  while (ns(&now) < end);
#else
  (void)ns;
  begin = now;
  nanosleep(&begin, 0);
#endif
}
