/* SPDX-License-Identifier: MIT */
/* Operations that change the process: its identity, its signal actions, its
 * mappings, its terminal. From operations.h, which has the includes. */
#pragma once

#include <grp.h>

enum { kOther = 4242 };
static char page[4096] __attribute__((aligned(4096)));

/* The result of a change, and who one is then. */
static unsigned became(int result) {
  uid_t uids[3] = {0};
  gid_t gids[3] = {0};
  long code = result == 0 ? 0 : -1;
  getresuid(uids, uids + 1, uids + 2);
  getresgid(gids, gids + 1, gids + 2);
  return outcome(code, uids, sizeof uids) ^ outcome(0, gids, sizeof gids);
}
static unsigned grouped(int result) {
  static gid_t groups[1000];
  int count = getgroups(1000, groups);
  if (result != 0 || count < 0) return outcome(-1, NULL, 0);
  return outcome(count, groups, (size_t)count * sizeof groups[0]);
}
static const gid_t kGroups[] = {7, 8, 4243};

static int drop_capabilities(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
  return capset(&header, none);
}

static void handler(int number) { (void)number; }
static unsigned handled(handler_t before, int (*again)(int)) {
  struct sigaction now;
  int ran = again(SIGUSR1);
  if (sigaction(SIGUSR1, NULL, &now) != 0) return 0;
  unsigned flags =
      (unsigned)now.sa_flags & (unsigned)(SA_RESTART | SA_RESETHAND);
  return outcome(ran + 10 * (before == SIG_DFL), &flags, sizeof flags);
}
static unsigned acted(int (*set)(int, const struct sigaction*,
                                 struct sigaction*)) {
  struct sigaction action = {0}, old, now;
  action.sa_handler = handler;
  action.sa_flags = SA_NODEFER;
  int result = set(SIGSEGV, &action, &old) * 2 + set(SIGSEGV, NULL, &now);
  int same = old.sa_handler == SIG_DFL && now.sa_handler == handler &&
             (now.sa_flags & SA_NODEFER) != 0;
  return outcome(result * 2 + same, NULL, 0);
}

static unsigned unmapped(void* at) {
  unsigned char resident = 0;
  return outcome(mincore(at, 4096, &resident), NULL, 0);
}
static unsigned remapped(void) {
  char* from = (char*)mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 0, 0);
  void* to = mremap(from, 4096, 8192, MREMAP_MAYMOVE);
  return to == MAP_FAILED ? outcome(-1, NULL, 0) : outcome(0, to, 8192);
}

// clang-format off
#define SETTINGS(X)                                                         \
  X(setuid, { return became(setuid(kOther)); })                             \
  X(setgid, { return became(setgid(kOther)); })                             \
  X(seteuid, { return became(seteuid(kOther)); })                           \
  X(setegid, { return became(setegid(kOther)); })                           \
  X(setreuid, { return became(setreuid(5, kOther)); })                      \
  X(setregid, { return became(setregid(5, kOther)); })                      \
  X(setresuid, { return became(setresuid(5, 6, kOther)); })                 \
  X(setresgid, { return became(setresgid(5, 6, kOther)); })                 \
  X(setfsuid, { int n = setfsuid(kOther); RESULT(n + setfsuid(kOther)); })  \
  X(setfsgid, { int n = setfsgid(kOther); RESULT(n + setfsgid(kOther)); })  \
  X(setgroups, { return grouped(setgroups(3, kGroups)); })                  \
  X(initgroups, { return grouped(initgroups("daemon", 4244)); })            \
  X(capset, { RESULT(drop_capabilities() * 2 + drop_capabilities()); })     \
  X(prctl, { int n = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);                \
             RESULT(n * 2 + prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)); })     \
  X(unshare, { RESULT(unshare(CLONE_FS | CLONE_FILES)); })                  \
  X(setns, { RESULT(setns(0, CLONE_NEWUTS)); })                             \
  X(ioctl, { int n = -1; int r = ioctl(0, FIONREAD, &n); RESULT(r + n); })  \
  X(sigaction, { return acted(sigaction); })                                \
  X(__sigaction, { return acted(__sigaction); })                            \
  X(signal, { return handled(signal(SIGUSR1, handler), raise); })           \
  X(bsd_signal, { return handled(bsd_signal(SIGUSR1, handler), raise); })   \
  X(ssignal, { return handled(ssignal(SIGUSR1, handler), raise); })         \
  X(lockf, { int fd = open("new", O_RDWR | O_CREAT, 0600);                  \
             RESULT(lockf(fd, F_LOCK, 9)); })                               \
  X(lockf_test, { RESULT(lockf(0, F_TEST, 9)); })                           \
  X(lockf64, { RESULT(lockf64(0, F_LOCK, 9)); })                            \
  X(madvise, { page[0] = 1; int n = madvise(page, 4096, MADV_DONTNEED);     \
               RESULT(n * 2 + page[0]); })                                  \
  X(posix_madvise, { RESULT(posix_madvise(page + 1, 1, 0)); })              \
  X(munmap, { int n = munmap(page, 4096); return unmapped(page) + (unsigned)n; })\
  X(mmap64, { void* p = mmap64(NULL, 99, PROT_READ, MAP_PRIVATE, 0, 4096);  \
              return outcome(0, p, 99); })                                  \
  X(mremap, { return remapped(); })                                         \
  X(login_tty, { RESULT(login_tty(0)); })                                   \
  X(forkpty, { int m; pid_t p = forkpty(&m, NULL, NULL, NULL);              \
               if (p == 0) _exit(7); return ended(p); })
// clang-format on
