/* SPDX-License-Identifier: MIT */
/* An allocator may read files, and may be entered from a signal handler: so no
 * interposed call may allocate, the first read with its start of the engine
 * included, nor may the engine's threads. The helper's allocator ends the
 * program when one does. In some of the calls libc allocates by itself: there
 * the number is compared. */
#include "files.h"
#include "processes.h"
#include "settings.h"
#include "streams.h"

#include <pthread.h>

static void* in_thread(void* argument) {
  reads_and_seeks();
  return argument;
}

int main(void) {
  pthread_t thread;
  make_file("data", 8 << 20, 0);
  find_allocator();
  reads_and_seeks();
  advice();
  opens();
  numbers();
  pipes();
  sockets();
  connections();
  waits();
  stdio();
  processes();
  changes();
  actions();
  pthread_create(&thread, NULL, in_thread, NULL);
  pthread_join(thread, NULL);
  return verdict();
}
