/* SPDX-License-Identifier: MIT */
/* A program inherits that a signal is ignored, and no handler, from the one
 * that starts it, in whatever way; a bad buffer is EFAULT as ever. */
#include "../victim.h"

#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char** environ;
static char* self;
static char* as_child[] = {(char*)"victim", (char*)"child", NULL};

/* 1: SIGSEGV is ignored, 2: SIGBUS, 4: one of them has a handler. */
static int dispositions(void) {
  const int signals[] = {SIGSEGV, SIGBUS};
  int found = 0;
  for (int i = 0; i < 2; ++i) {
    struct sigaction action;
    sigaction(signals[i], NULL, &action);
    if (action.sa_handler == SIG_IGN) {
      found |= 1 << i;
    } else if (action.sa_handler != SIG_DFL) {
      found |= 4;
    }
  }
  return found;
}

static int status_of(pid_t pid) {
  int status = -1;
  return waitpid(pid, &status, 0) == pid && WIFEXITED(status)
             ? WEXITSTATUS(status)
             : -1;
}
static int by_fork(void) {
  pid_t pid = fork();
  if (pid == 0) {
    execv("/nowhere", as_child); /* fails: all is as before */
    execv(self, as_child);
    _exit(99);
  }
  return status_of(pid);
}
static int by_vfork(void) {
  pid_t pid = vfork();
  if (pid == 0) {
    execv("/nowhere", as_child);
    execve(self, as_child, environ);
    _exit(99);
  }
  return status_of(pid);
}
static int by_number(void) {
  pid_t pid = fork();
  if (pid == 0) syscall(SYS_execve, self, as_child, environ);
  return status_of(pid);
}
static int by_spawn(void) {
  pid_t pid;
  if (posix_spawn(&pid, self, NULL, NULL, as_child, environ) != 0) return -1;
  return status_of(pid);
}
static int by_spawnp(void) {
  pid_t pid;
  if (posix_spawnp(&pid, self, NULL, NULL, as_child, environ) != 0) return -1;
  return status_of(pid);
}
static int by_system(void) {
  char command[4200];
  snprintf(command, sizeof command, "exec '%s' child", self);
  return WEXITSTATUS(system(command));
}
static int by_popen(void) {
  char command[4200];
  snprintf(command, sizeof command, "exec '%s' child", self);
  FILE* stream = popen(command, "r");
  return stream == NULL ? -1 : WEXITSTATUS(pclose(stream));
}

static void all_give(int fd, int wanted) {
  CHECK(by_fork() == wanted);
  CHECK(by_vfork() == wanted);
  CHECK(by_number() == wanted);
  CHECK(by_spawn() == wanted);
  CHECK(by_spawnp() == wanted);
  CHECK(by_system() == wanted);
  CHECK(by_popen() == wanted);
  CHECK(preads(fd, 60000, 1000, 0));
  CHECK(pread(fd, (void*)16, 4096, 0) == -1 && errno == EFAULT);
}

static void on_signal(int number) { (void)number; }

int main(int argc, char** argv) {
  if (argc > 1) return dispositions();
  self = argv[0];
  make_file("data", 1 << 20, 0);
  int fd = open("data", O_RDONLY);
  CHECK(preads(fd, 60000, 1000, 0) && preads(fd, 60000, 1000, 0));
  all_give(fd, 0);
  signal(SIGSEGV, SIG_IGN);
  all_give(fd, 1);
  signal(SIGBUS, SIG_IGN);
  all_give(fd, 3);
  CHECK(dispositions() == 3);
  signal(SIGSEGV, on_signal);
  all_give(fd, 2);
  signal(SIGSEGV, SIG_DFL);
  signal(SIGBUS, SIG_DFL);
  all_give(fd, 0);
  return verdict();
}
