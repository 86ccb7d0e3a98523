/* SPDX-License-Identifier: MIT */
/* Whichever way a program leaves, its statistics are written, once; a vfork
 * child that leaves writes none. The runner looks at the files. */
#include "../victim.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void* leaves_last(void* argument) {
  (void)argument;
  usleep(20000);
  return NULL;
}
static void* calls_exit(void* argument) {
  (void)argument;
  exit(0);
}
static void close_stderr(void) { fclose(stderr); }

static void leave(const char* how) {
  pthread_t thread;
  if (!strcmp(how, "exit")) exit(0);
  if (!strcmp(how, "_exit")) _exit(0);
  if (!strcmp(how, "_Exit")) _Exit(0);
  if (!strcmp(how, "quick_exit")) quick_exit(0);
  if (!strcmp(how, "exit_group")) syscall(SYS_exit_group, 0);
  if (!strcmp(how, "atexit")) atexit(close_stderr);
  if (!strcmp(how, "pthread_exit")) {
    pthread_create(&thread, NULL, leaves_last, NULL);
    pthread_exit(NULL);
  }
  if (!strcmp(how, "thread")) {
    pthread_create(&thread, NULL, calls_exit, NULL);
    pthread_join(thread, NULL);
  }
  if (!strcmp(how, "vfork")) {
    int status;
    pid_t pid = vfork();
    if (pid == 0) _exit(0);
    waitpid(pid, &status, 0);
    int fd = open("data", O_RDONLY); /* counted: nothing is written yet */
    for (int i = 0; i < 500; ++i) CHECK(preads(fd, 100, i, 0));
  }
  if (!strcmp(how, "fork")) {
    int status;
    pid_t pid = fork();
    if (pid == 0) _exit(0); /* has cached nothing: says nothing */
    waitpid(pid, &status, 0);
  }
  /* else a return from main */
}

int main(int argc, char** argv) {
  make_file("data", 1 << 20, 0);
  int fd = open("data", O_RDONLY);
  for (int i = 0; i < 100; ++i) CHECK(preads(fd, 5000, 777 * i, 0));
  if (wrong_count || argc < 2) return 1;
  leave(argv[1]);
  return wrong_count != 0;
}
