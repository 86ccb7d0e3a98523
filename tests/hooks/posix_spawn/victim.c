/* SPDX-License-Identifier: MIT */
/* libc starts programs behind our hooks' backs (posix_spawn, system, popen):
 * a child must read on where we stopped, and we where it stopped, also when a
 * file action carries a close-on-exec descriptor across. */
#include "../victim.h"

#include <spawn.h>
#include <sys/wait.h>

extern char** environ;
static char* self;

static int wait_for(pid_t pid) {
  int status = -1;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void plain(int by_path) {
  int fd = open("data", O_RDONLY);
  char number[12];
  snprintf(number, sizeof number, "%d", fd);
  char* argv[] = {self, number, (char*)"100", NULL};
  CHECK(reads(fd, 100, 0, 0));
  pid_t pid;
  CHECK((by_path ? posix_spawnp : posix_spawn)(&pid, self, NULL, NULL, argv,
                                               environ) == 0);
  CHECK(wait_for(pid) == 0);
  CHECK(reads(fd, 10, 150, 0));
  close(fd);
}

static void with_actions(void) {
  int fd = open("data", O_RDONLY | O_CLOEXEC);
  char* argv[] = {self, (char*)"0", (char*)"700", NULL};
  CHECK(reads(fd, 700, 0, 0));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fd, 0);
  pid_t pid;
  CHECK(posix_spawn(&pid, self, &actions, NULL, argv, environ) == 0);
  posix_spawn_file_actions_destroy(&actions);
  CHECK(wait_for(pid) == 0);
  CHECK(reads(fd, 10, 750, 0));
  close(fd);
}

static void by_shell(void) {
  int fd = open("data", O_RDONLY);
  char command[4096];
  CHECK(reads(fd, 300, 0, 0));
  snprintf(command, sizeof command, "exec '%s' %d 300", self, fd);
  CHECK(system(command) == 0);
  CHECK(reads(fd, 10, 350, 0));
  snprintf(command, sizeof command, "exec '%s' %d 360", self, fd);
  FILE* pipe = popen(command, "r");
  CHECK(pipe && fgetc(pipe) == EOF && pclose(pipe) == 0);
  CHECK(reads(fd, 10, 410, 0));
  close(fd);
}

static void errors(void) {
  pid_t pid;
  char* argv[] = {self, NULL};
  CHECK(posix_spawn(&pid, "./absent", NULL, NULL, argv, environ) == ENOENT);
  CHECK(system(NULL) == 1 && system("exit 3") == 3 << 8);
  errno = 0;
  CHECK(popen("true", "nonsense") == NULL && errno == EINVAL);
}

int main(int argc, char** argv) {
  self = argv[0];
  if (argc == 3) {
    return !reads(atoi(argv[1]), 50, strtoull(argv[2], NULL, 10), 0);
  }
  make_file("data", 1 << 20, 0);
  plain(0);
  plain(1);
  with_actions();
  by_shell();
  errors();
  return verdict();
}
