/* SPDX-License-Identifier: MIT */
/* Every interposed call once, each written so that it can be the very first
 * thing that a process does: no stdio before it, no set-up by another call. It
 * returns a number that depends on what the call did (results, errno, bytes).
 */
#pragma once

#include "../other_names.h"

#include <dirent.h>
#include <linux/capability.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <utmp.h>

extern char** environ;

/* Mixed so that no two outcomes look alike. */
static unsigned outcome(long result, const void* bytes, size_t count) {
  unsigned sum = (unsigned)result * 31 + (result < 0 ? (unsigned)errno : 0);
  for (size_t i = 0; i < count; ++i) {
    sum = sum * 16777619 + ((const unsigned char*)bytes)[i];
  }
  return sum;
}
static unsigned opened(int fd) {
  char got[64];
  ssize_t n = fd < 0 ? -1 : (ssize_t)syscall(SYS_pread64, fd, got, 64, 500);
  unsigned result = outcome(n, got, n > 0 ? (size_t)n : 0);
  if (fd >= 0) close(fd);
  return result;
}
/* Descriptor 0 is the data file: see the runner. */
static char got[4096];
static struct iovec two[2] = {{got, 100}, {got + 100, 200}};
#define GOT(call)   \
  long n_ = (call); \
  return outcome(n_, got, n_ > 0 ? (size_t)n_ : 0)
#define RESULT(call) return outcome((call), NULL, 0)

static unsigned ended(pid_t pid) {
  int status = -1;
  if (pid > 0) waitpid(pid, &status, 0);
  return outcome(pid > 0 ? status : -1, NULL, 0);
}
static unsigned exits(void (*body)(void)) {
  pid_t pid = fork();
  if (pid == 0) {
    body();
    _exit(99);
  }
  return ended(pid);
}
static char* kTrue[] = {(char*)"/bin/true", NULL};
static void by_exit(void) { exit(3); }
static void by_exit_now(void) { _exit(4); }
static void by_Exit(void) { _Exit(5); }
static void by_quick_exit(void) { quick_exit(6); }
static void by_execv(void) { execv(kTrue[0], kTrue); }
static void by_execve(void) { execve(kTrue[0], kTrue, environ); }
static void by_execvp(void) { execvp("true", kTrue); }
static void by_execvpe(void) { execvpe("true", kTrue, environ); }
static void by_execl(void) { execl(kTrue[0], "true", "x", (char*)NULL); }
static void by_execlp(void) { execlp("true", "true", "x", (char*)NULL); }
static void by_execle(void) {
  execle(kTrue[0], "true", "x", (char*)NULL, environ);
}
static void by_fexecve(void) {
  fexecve(open(kTrue[0], O_RDONLY), kTrue, environ);
}
static void by_execveat(void) { execveat(-1, kTrue[0], kTrue, environ, 0); }
static int nothing(void* argument) {
  (void)argument;
  return 7;
}

#include "settings.h"
#include "twins.h"

// clang-format off
#define OPERATIONS(X)                                                       \
  X(read, { GOT(read(0, got, 100)); })                                      \
  X(pread, { GOT(pread(0, got, 100, 70)); })                                \
  X(pread64, { GOT(pread64(0, got, 100, 70)); })                            \
  X(readv, { GOT(readv(0, two, 2)); })                                      \
  X(preadv, { GOT(preadv(0, two, 2, 90)); })                                \
  X(preadv64, { GOT(preadv64(0, two, 2, 90)); })                            \
  X(preadv2, { GOT(preadv2(0, two, 2, 90, 0)); })                           \
  X(preadv64v2, { GOT(preadv64v2(0, two, 2, 90, 0)); })                     \
  X(lseek, { RESULT(lseek(0, 5, SEEK_CUR)); })                              \
  X(lseek64, { RESULT(lseek64(0, 5, SEEK_END)); })                          \
  X(open, { return opened(open("data", O_RDONLY)); })                       \
  X(open64, { return opened(open64("data", O_RDONLY)); })                   \
  X(openat, { return opened(openat(AT_FDCWD, "data", O_RDONLY)); })         \
  X(openat64, { return opened(openat64(AT_FDCWD, "data", O_RDONLY)); })     \
  X(open_absent, { RESULT(open("absent", O_RDONLY)); })                     \
  X(creat, { RESULT(close(creat("new", 0600))); })                          \
  X(creat64, { RESULT(close(creat64("new", 0600))); })                      \
  X(close, { RESULT(close(0)); })                                           \
  X(close_bad, { RESULT(close(-1)); })                                      \
  X(close_range, { RESULT(close_range(0, 0, 0)); })                         \
  X(closefrom, { closefrom(100); return 1; })                               \
  X(dup, { int n = dup(0); RESULT(n > 2 && lseek(n, 3, SEEK_SET) == 3); })  \
  X(dup2, { RESULT(dup2(0, 50)); })                                         \
  X(dup3, { RESULT(dup3(0, 51, O_CLOEXEC)); })                              \
  X(fcntl, { RESULT(fcntl(0, F_DUPFD, 60)); })                              \
  X(fcntl64, { RESULT(fcntl64(0, F_GETFL)); })                              \
  X(posix_fadvise, { RESULT(posix_fadvise(0, 0, 0, POSIX_FADV_WILLNEED)); })\
  X(posix_fadvise64, {                                                      \
      RESULT(posix_fadvise64(0, 0, 0, POSIX_FADV_RANDOM)); })               \
  X(fadvise_bad, { RESULT(posix_fadvise(-1, 0, 0, 0)); })                   \
  X(readahead, { RESULT(readahead(0, 0, 8192)); })                          \
  X(mmap, { void* p = mmap(NULL, 99, PROT_READ, MAP_PRIVATE, 0, 0);         \
            return outcome(0, p, 99); })                                    \
  X(fork, { pid_t p = fork(); if (p == 0) _exit(7); return ended(p); })     \
  X(_Fork, { pid_t p = _Fork(); if (p == 0) _exit(7); return ended(p); })   \
  X(vfork, { pid_t p = vfork(); if (p == 0) _exit(7); return ended(p); })   \
  X(clone, { static char stack[65536];                                      \
             return ended(clone(nothing, stack + 65536, SIGCHLD, NULL)); }) \
  X(posix_spawn, { pid_t p = -1;                                            \
      posix_spawn(&p, kTrue[0], NULL, NULL, kTrue, environ);                \
      return ended(p); })                                                   \
  X(posix_spawnp, { pid_t p = -1;                                           \
      posix_spawnp(&p, "true", NULL, NULL, kTrue, environ);                 \
      return ended(p); })                                                   \
  X(system, { RESULT(system("exit 3")); })                                  \
  X(popen, { FILE* f = popen("echo popen", "r");                            \
             char* p = fgets(got, 99, f); RESULT(p ? pclose(f) + *p : -1); })\
  X(exit, { return exits(by_exit); })                                       \
  X(_exit, { return exits(by_exit_now); })                                  \
  X(_Exit, { return exits(by_Exit); })                                      \
  X(quick_exit, { return exits(by_quick_exit); })                           \
  X(execv, { return exits(by_execv); })                                     \
  X(execve, { return exits(by_execve); })                                   \
  X(execvp, { return exits(by_execvp); })                                   \
  X(execvpe, { return exits(by_execvpe); })                                 \
  X(execl, { return exits(by_execl); })                                     \
  X(execlp, { return exits(by_execlp); })                                   \
  X(execle, { return exits(by_execle); })                                   \
  X(fexecve, { return exits(by_fexecve); })                                 \
  X(execveat, { return exits(by_execveat); })                               \
  X(fopen, { FILE* f = fopen("data", "r");                                  \
             size_t n = fread(got, 1, 99, f); fclose(f); GOT((long)n); })   \
  X(fopen64, { FILE* f = fopen64("data", "r");                              \
               size_t n = fread(got, 1, 99, f); fclose(f); GOT((long)n); }) \
  X(fopen_absent, { RESULT(fopen("absent", "r") ? 0 : -1); })               \
  X(fdopen, { FILE* f = fdopen(0, "r"); GOT((long)fread(got, 1, 99, f)); }) \
  X(freopen, { FILE* f = freopen("data", "r", stdin);                       \
               GOT((long)fread(got, 1, 99, f)); })                          \
  X(freopen64, { FILE* f = freopen64("data", "r", stdin);                   \
                 GOT((long)fread(got, 1, 99, f)); })                        \
  X(fclose, { RESULT(fclose(stdin)); })                                     \
  X(fdopendir, { DIR* d = fdopendir(open(".", O_RDONLY));                   \
                 RESULT(readdir(d) != NULL && closedir(d) == 0); })         \
  X(closedir, { DIR* d = opendir("."); RESULT(closedir(d)); })              \
  X(sendfile, { int fd = open("new", O_WRONLY | O_CREAT, 0600);             \
                RESULT(sendfile(fd, 0, NULL, 99)); })                       \
  X(sendfile64, { int fd = open("new", O_WRONLY | O_CREAT, 0600);           \
                  RESULT(sendfile64(fd, 0, NULL, 99)); })                   \
  X(splice, { RESULT(splice(0, NULL, 1, NULL, 0, 0)); })                    \
  X(copy_file_range, { int fd = open("new", O_WRONLY | O_CREAT, 0600);      \
                       RESULT(copy_file_range(0, NULL, fd, NULL, 99, 0)); })\
  X(sendmsg, { struct msghdr m = {0}; RESULT(sendmsg(0, &m, 0)); })         \
  X(sendmmsg, { struct mmsghdr m = {{0}, 0};                                \
                RESULT(sendmmsg(0, &m, 1, 0)); })                           \
  X(write, { int fd = open("new", O_WRONLY | O_CREAT, 0600);                \
             RESULT(write(fd, "abc", 3)); })                                \
  X(writev, { int fd = open("new", O_WRONLY | O_CREAT, 0600);               \
              struct iovec v = {(char *)"abc", 3};                          \
              RESULT(writev(fd, &v, 1)); })                                 \
  X(getrandom, { RESULT(getrandom(got, 1, 0)); })                           \
  X(setsockopt, { RESULT(setsockopt(0, SOL_SOCKET, SO_DEBUG, NULL, 0)); })  \
  X(accept, { RESULT(accept(0, NULL, NULL)); })                             \
  X(accept4, { RESULT(accept4(0, NULL, NULL, 0)); })                        \
  X(connect, { struct sockaddr a = {0}; RESULT(connect(0, &a, sizeof a)); })\
  X(recv, { RESULT(recv(0, got, 1, 0)); })                                  \
  X(recvfrom, { RESULT(recvfrom(0, got, 1, 0, NULL, NULL)); })              \
  X(recvmsg, { struct msghdr m = {0}; RESULT(recvmsg(0, &m, 0)); })         \
  X(recvmmsg, { struct mmsghdr m = {{0}, 0};                                \
                RESULT(recvmmsg(0, &m, 1, 0, NULL)); })                     \
  X(send, { RESULT(send(0, got, 1, 0)); })                                  \
  X(sendto, { RESULT(sendto(0, got, 1, 0, NULL, 0)); })                     \
  X(epoll_wait, { struct epoll_event e; RESULT(epoll_wait(-1, &e, 1, 0)); })\
  X(epoll_pwait, { struct epoll_event e;                                    \
                   RESULT(epoll_pwait(-1, &e, 1, 0, NULL)); })              \
  X(epoll_pwait2, { struct epoll_event e;                                   \
                    RESULT(epoll_pwait2(-1, &e, 1, NULL, NULL)); })         \
  X(semop, { struct sembuf b = {0, 0, 0}; RESULT(semop(-1, &b, 1)); })      \
  X(semtimedop, { struct sembuf b = {0, 0, 0};                              \
                  RESULT(semtimedop(-1, &b, 1, NULL)); })                   \
  X(sigtimedwait, { sigset_t s; struct timespec t = {0, 0};                 \
      sigemptyset(&s); RESULT(sigtimedwait(&s, NULL, &t)); })               \
  X(sigwaitinfo, { sigset_t s; sigemptyset(&s); sigaddset(&s, SIGUSR1);     \
      sigprocmask(SIG_BLOCK, &s, NULL); raise(SIGUSR1);                     \
      RESULT(sigwaitinfo(&s, NULL)); })                                     \
  X(daemon, { pid_t p = fork(); if (p == 0) _exit(daemon(1, 1) != 0);       \
              return ended(p); })                                           \
  X(syscall, { GOT(syscall(SYS_read, 0, got, 100)); })                      \
  X(syscall_pid, { RESULT(syscall(SYS_getpid) == getpid()); })              \
  X(syscall_bad, { RESULT(syscall(9999)); })                                \
  SETTINGS(X)                                                               \
  TWINS(X)

// clang-format on

#define DEFINE(name, ...) static unsigned do_##name(void) __VA_ARGS__
OPERATIONS(DEFINE)
#undef DEFINE

static const struct {
  const char* name;
  unsigned (*run)(void);
} kOperations[] = {
#define ROW(name, ...) {#name, do_##name},
    OPERATIONS(ROW)
#undef ROW
};
enum { kOperationCount = sizeof kOperations / sizeof kOperations[0] };

/* Runs the operation named by the environment variable and leaves its outcome
 * in a line on standard output; nothing but raw calls besides. */
static void run_named(const char* variable, const char* where) {
  const char* name = NULL;
  size_t length = strlen(variable);
  for (char** e = environ; e && *e; ++e) {
    if (!strncmp(*e, variable, length) && (*e)[length] == '=') {
      name = *e + length + 1;
      **e = '_'; /* what the operation starts must not run it again */
    }
  }
  for (int i = 0; name && i < kOperationCount; ++i) {
    if (strcmp(name, kOperations[i].name) != 0) continue;
    unsigned result = kOperations[i].run();
    char line[100] = {0}, digits[11];
    size_t n = 0;
    for (const char* p = name; *p; ++p) line[n++] = *p;
    line[n++] = ' ';
    for (const char* p = where; *p; ++p) line[n++] = *p;
    line[n++] = ' ';
    int d = 0;
    do digits[d++] = (char)('0' + result % 10);
    while ((result /= 10) != 0);
    while (d > 0) line[n++] = digits[--d];
    line[n++] = '\n';
    if (write(1, line, n) != (ssize_t)n) _exit(98);
  }
}
