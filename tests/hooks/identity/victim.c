/* SPDX-License-Identifier: MIT */
/* A program that changes its user, its groups or its capabilities has changed
 * all of itself: no thread of the process keeps the old ones. And whoever
 * writes to a file that was read under former ids does not wait for that.
 * Needs root. */
#include "../victim.h"

#include <dirent.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

enum { kOther = 4242 };

int capset(void* header, const void* data);

/* What of a thread's status is about identity. */
static void identity_of(const char* task, char* text, size_t size) {
  char path[64], line[512];
  snprintf(path, sizeof path, "/proc/self/task/%s/status", task);
  *text = 0;
  FILE* status = fopen(path, "r");
  if (status == NULL) return;
  while (fgets(line, sizeof line, status) != NULL) {
    /* The kernel's own workers for asynchronous reads are not threads. */
    if (strncmp(line, "Name:\tiou-", 10) == 0) break;
    if (strncmp(line, "Uid:", 4) != 0 && strncmp(line, "Gid:", 4) != 0 &&
        strncmp(line, "Groups:", 7) != 0 && strncmp(line, "Cap", 3) != 0 &&
        strncmp(line, "NoNewPrivs:", 11) != 0) {
      continue;
    }
    if (strlen(text) + strlen(line) < size) strcat(text, line);
  }
  fclose(status);
}

static int all_alike(void) {
  char mine[2048], its[2048], self[16];
  snprintf(self, sizeof self, "%d", getpid());
  identity_of(self, mine, sizeof mine);
  DIR* tasks = opendir("/proc/self/task");
  int alike = tasks != NULL && *mine != 0;
  for (struct dirent* entry; alike && (entry = readdir(tasks)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    identity_of(entry->d_name, its, sizeof its);
    if (*its == 0 || strcmp(mine, its) == 0) continue;
    printf("thread %s:\n%sthe program:\n%s", entry->d_name, its, mine);
    alike = 0;
  }
  if (tasks != NULL) closedir(tasks);
  return alike;
}

static int drop_capabilities(int by_number) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3,
                                            getpid()};
  struct __user_cap_data_struct data[2] = {{0, 0, 0}, {0, 0, 0}};
  return by_number ? (int)syscall(SYS_capset, &header, data)
                   : capset(&header, data);
}

static const gid_t kGroups[] = {7, 8, 4243};

static int by_setuid(void) {
  return setgroups(3, kGroups) || setgid(kOther) || setuid(kOther);
}
static int by_setresuid(void) {
  return setgroups(0, NULL) || setresgid(1, 2, 3) || setresuid(1, 2, 3);
}
static int by_setreuid(void) {
  return setregid(5, kOther) || setreuid(5, kOther);
}
static int by_seteuid(void) {
  int back = seteuid(kOther) || seteuid(0);
  return back || !all_alike() || setegid(kOther) || seteuid(kOther);
}
static int by_initgroups(void) {
  return initgroups("daemon", 4244) || setgid(kOther);
}
static int by_number(void) {
  return syscall(SYS_setgroups, 3, kGroups) || syscall(SYS_setgid, kOther) ||
         syscall(SYS_setfsuid, 77) < 0 || syscall(SYS_setuid, kOther);
}
static int by_setfsuid(void) {
  setfsgid(kOther);
  return setfsuid(kOther) != 0;
}
static int by_capset(void) { return drop_capabilities(0); }
static int by_capset_number(void) { return drop_capabilities(1); }
static int by_prctl(void) {
  return prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0) ||
         prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) || setuid(kOther) ||
         prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || drop_capabilities(0);
}
static int by_refused(void) {
  return setuid(kOther) || setuid(0) == 0 || setgroups(3, kGroups) == 0;
}

/* In a child each, because none can be undone; what it has read stays good. */
static int changes(int (*call)(void)) {
  pid_t pid = fork();
  if (pid == 0) {
    int fd = open("data", O_RDONLY);
    if (!preads(fd, 60000, 1000, 0) || !preads(fd, 60000, 1000, 0)) _exit(2);
    if (call() != 0) _exit(3);
    if (!all_alike()) _exit(4);
    _exit(preads(fd, 60000, 1000, 0) && preads(fd, 60000, 500000, 0) ? 0 : 5);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  return status == 0;
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Read as one user, who becomes another: a writer is let in at once. */
static int lets_writer_in(void) {
  int fd = open("data", O_RDONLY);
  if (setresuid(kOther, kOther, 0) != 0) return 0;
  int own = open("own", O_RDONLY);
  if (!preads(own, 60000, 0, 0) || !preads(own, 60000, 0, 0)) return 0;
  if (setresuid(0, 0, 0) != 0 || !preads(fd, 60000, 0, 0)) return 0;
  pid_t pid = fork();
  if (pid == 0) {
    double begin = seconds();
    int to = open("own", O_WRONLY);
    _exit(to >= 0 && seconds() - begin < 5 ? 0 : 1);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  return status == 0 && preads(own, 60000, 0, 0);
}

int main(void) {
  if (geteuid() != 0) {
    puts("needs root");
    return 77;
  }
  make_file("data", 1 << 20, 0);
  make_file("own", 1 << 20, 0);
  CHECK(chown("own", kOther, kOther) == 0);
  CHECK(changes(by_setuid));
  CHECK(changes(by_setresuid));
  CHECK(changes(by_setreuid));
  CHECK(changes(by_seteuid));
  CHECK(changes(by_initgroups));
  CHECK(changes(by_number));
  CHECK(changes(by_setfsuid));
  CHECK(changes(by_capset));
  CHECK(changes(by_capset_number));
  CHECK(changes(by_prctl));
  CHECK(changes(by_refused));
  CHECK(lets_writer_in());
  return verdict();
}
