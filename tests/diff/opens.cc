// SPDX-License-Identifier: MIT
// The life of descriptors: every way to open, duplicate and close, numbers
// included, since a library that uses up a number shows it here.
#include "world.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

extern "C" {
int __open_2(const char*, int);
int __open64_2(const char*, int);
int __openat_2(int, const char*, int);
int __openat64_2(int, const char*, int);
}

namespace diff {
namespace {

constexpr size_t kMostFds = 20;

int open_as(unsigned how, const char* path, int flags) {
  switch (how) {
    case 0:
      return open(path, flags, 0600);
    case 1:
      return open64(path, flags, 0600);
    case 2:
      return openat(AT_FDCWD, path, flags, 0600);
    case 3:
      return openat64(AT_FDCWD, path, flags, 0600);
    case 4:
      return __open_2(path, flags & ~O_CREAT);
    case 5:
      return __open64_2(path, flags & ~O_CREAT);
    case 6:
      return __openat_2(AT_FDCWD, path, flags & ~O_CREAT);
    case 7:
      return __openat64_2(AT_FDCWD, path, flags & ~O_CREAT);
    case 8:
      return syscall(SYS_openat, AT_FDCWD, path, flags, 0600);
    default: {
      open_how how2 = {};
      how2.flags = static_cast<unsigned>(flags & ~O_CREAT);
      return syscall(SYS_openat2, AT_FDCWD, path, &how2, sizeof how2);
    }
  }
}
const char* const kOpenNames[] = {
    "open",           "open64",         "openat",     "openat64",
    "__open_2",       "__open64_2",     "__openat_2", "__openat64_2",
    "syscall openat", "syscall openat2"};

void close_one(World& w) {
  if (w.fds.empty()) return;
  int fd = w.fds[w.below(w.fds.size())], error;
  bool raw = w.chance(10);
  long got = DIFF_CALL(error, raw ? syscall(SYS_close, fd) : close(fd));
  w.forget(fd);
  say(w, "%s(%d) %s", raw ? "syscall close" : "close", fd,
      result(got, error).c_str());
}

int random_flags(World& w) {
  int flags = O_RDONLY;
  if (w.chance(w.writers_percent)) {
    flags = w.pick({O_RDWR, O_WRONLY, O_RDWR | O_APPEND, O_WRONLY | O_APPEND});
    if (w.chance(10)) flags |= O_CREAT;
    if (w.chance(4)) flags |= O_TRUNC;
  }
  if (w.chance(20)) flags |= O_CLOEXEC;
  if (w.chance(8)) flags |= O_NONBLOCK;
  if (w.chance(5)) flags |= O_NOATIME;
  if (w.chance(3)) flags |= O_DIRECT;
  return flags;
}

void run_open(World& w) {
  while (w.fds.size() >= kMostFds) close_one(w);
  std::string path = w.any_file();
  if (w.chance(2)) path += "-missing";
  int flags = random_flags(w), error;
  unsigned how = w.below(10);
  const std::string& full = w.chance(30) ? w.dir + "/" + path : path;
  int fd = DIFF_CALL(error, open_as(how, full.c_str(), flags));
  w.add(fd);
  say(w, "%s(%s, %#o) %s", kOpenNames[how], path.c_str(), flags,
      result(fd, error).c_str());
}

void run_reopen(World& w) {
  char path[40];
  int from = w.any_fd(), error;
  snprintf(path, sizeof path, "/proc/self/fd/%d", from);
  int fd = DIFF_CALL(error, open(path, O_RDONLY));
  w.add(fd);
  say(w, "open(fd/%d) %s", from, result(fd, error).c_str());
}

void run_tmpfile(World& w) {
  int error;
  int fd = DIFF_CALL(error, open(".", O_TMPFILE | O_RDWR, 0600));
  if (fd < 0) return say(w, "O_TMPFILE %s", result(fd, error).c_str());
  fill(w.buffer, 70000, w.random());
  ssize_t n = write(fd, w.buffer, 70000);
  char path[40];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  int again = open(path, O_RDONLY);
  if (w.chance(60))
    close(fd);
  else
    w.add(fd);
  w.add(again);
  say(w, "O_TMPFILE = %d, wrote %zd, again as %d", fd, n, again);
}

// Descriptors that are no files of ours: every call on them is the kernel's.
void run_odd(World& w) {
  int pair[2], fd = -1;
  unsigned which = w.below(6);
  switch (which) {
    case 0:
      if (pipe2(pair, O_NONBLOCK) != 0) return;
      if (write(pair[1], "pipe", 4) != 4) return;
      w.add(pair[1]);
      fd = pair[0];
      break;
    case 1:
      fd = open("/dev/zero", O_RDONLY);
      break;
    case 2:
      fd = memfd_create("odd", 0);
      if (write(fd, "memory", 6) != 6) return;
      break;
    case 3:
      fd = open(".", O_RDONLY | O_DIRECTORY);
      break;
    case 4:
      fd = open(w.any_file().c_str(), O_PATH);
      break;
    default:
      fd = open("/proc/version", O_RDONLY);
      break;
  }
  w.add(fd);
  say(w, "odd %u = %d", which, fd);
}

// opendir's descriptor is closed by closedir, and its number comes back.
void run_directory(World& w) {
  int fd = open(".", O_RDONLY | O_DIRECTORY);
  DIR* d = fdopendir(fd);
  int names = 0;
  if (d != nullptr) {
    while (readdir(d) != nullptr) ++names;
    closedir(d);
  }
  int error;
  int next = DIFF_CALL(error, open(w.any_file().c_str(), O_RDONLY));
  w.add(next);
  say(w, "directory %d of %d names, then %s", fd, names,
      result(next, error).c_str());
}

void run_duplicate(World& w) {
  if (w.fds.size() >= kMostFds) return close_one(w);
  int from = w.any_fd(), error, fd;
  int least = static_cast<int>(w.pick({10, 10, 40, 300}) + w.below(3));
  unsigned how = w.below(5);
  errno = kErrnoMark;
  switch (how) {
    case 0:
      fd = dup(from);
      break;
    case 1:
      fd = fcntl(from, F_DUPFD, least);
      break;
    case 2:
      fd = fcntl(from, F_DUPFD_CLOEXEC, least);
      break;
    case 3:
      fd = fcntl64(from, F_DUPFD, least);
      break;
    default:
      fd = syscall(SYS_dup, from);
      break;
  }
  error = errno;
  w.add(fd);
  static const char* const kNames[] = {"dup", "F_DUPFD", "F_DUPFD_CLOEXEC",
                                       "fcntl64 F_DUPFD", "syscall dup"};
  say(w, "%s(%d, %d) %s", kNames[how], from, how ? least : 0,
      result(fd, error).c_str());
}

// Onto a free number, onto one in use (which is closed by it), onto itself.
void run_duplicate_onto(World& w) {
  if (w.fds.size() >= kMostFds) return close_one(w);
  int from = w.any_fd(), error;
  int to = w.chance(50) ? w.any_fd() : static_cast<int>(30 + w.below(20));
  if ((to >= 0 && to <= kParkedLast) || w.under_stream(to)) to = 60;
  unsigned how = w.below(4);
  errno = kErrnoMark;
  int fd = how < 2 ? dup2(from, to) : dup3(from, to, how == 2 ? O_CLOEXEC : 0);
  error = errno;
  w.add(fd);
  say(w, "%s(%d, %d) %s", how < 2 ? "dup2" : "dup3", from, to,
      result(fd, error).c_str());
}

void run_close(World& w) {
  if (w.chance(3)) {
    int error;
    long got = DIFF_CALL(error, close(7777));
    return say(w, "close(7777) %s", result(got, error).c_str());
  }
  close_one(w);
}

void close_some(World& w, int flags) {
  if (w.fds.empty()) return;
  int first = w.fds[w.below(w.fds.size())], last = first + int(w.below(3));
  while (last > first && w.under_stream(last)) --last;
  if (last == first + 2 && w.under_stream(first + 1)) last = first;
  int error;
  bool raw = w.chance(20);
  long got = DIFF_CALL(error, raw ? syscall(SYS_close_range, first, last, flags)
                                  : close_range(first, last, flags));
  for (int fd = first; flags != 4 && fd <= last; ++fd) w.forget(fd);
  say(w, "close_range(%d, %d, %d) %s", first, last, flags,
      result(got, error).c_str());
}

void run_close_range(World& w) {
  close_some(w, w.pick({0, 0, 4 /* CLOEXEC */}));
}

// Makes a table of its own if another task shares this one, which without
// the library is never so; record locks stay behind with the old one.
void run_unshare(World& w) { close_some(w, 2 /* UNSHARE */); }

// Everything above a number: our own descriptors stay below it.
void run_closefrom(World& w) {
  int high = 200, error;
  int fd = DIFF_CALL(error, fcntl(w.any_fd(), F_DUPFD, high));
  closefrom(high);
  int left = 0;
  for (int i = high; i < high + 200; ++i) left += fcntl(i, F_GETFD) >= 0;
  auto closed = [high](int other) { return other >= high; };
  w.fds.erase(std::remove_if(w.fds.begin(), w.fds.end(), closed), w.fds.end());
  say(w, "F_DUPFD %s, closefrom(%d), %d left", result(fd, error).c_str(), high,
      left);
}

// A descriptor that goes through a socket shares its position ever after.
void run_send(World& w) {
  int pair[2], from = w.file_fd();
  if (from < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return;
  char byte = 'x';
  iovec v = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr m = {};
  m.msg_iov = &v;
  m.msg_iovlen = 1;
  m.msg_control = control;
  m.msg_controllen = sizeof control;
  cmsghdr* c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof(int));
  *reinterpret_cast<int*>(CMSG_DATA(c)) = from;
  long sent = sendmsg(pair[0], &m, 0);
  long got = sent == 1 ? recvmsg(pair[1], &m, 0) : -1;
  int fd =
      got == 1 ? *reinterpret_cast<int*>(CMSG_DATA(CMSG_FIRSTHDR(&m))) : -1;
  close(pair[0]);
  close(pair[1]);
  ssize_t n = read(fd, w.buffer, 1000);
  long here = lseek(from, 0, SEEK_CUR);
  w.add(fd);
  say(w, "sent %d, came as %d, read %zd, now at %ld", from, fd, n, here);
}

constexpr Kind kKinds[] = {
    {"open", Class::kDescriptor, 16, run_open},
    {"reopen", Class::kDescriptor, 1, run_reopen},
    {"tmpfile", Class::kDescriptor, 1, run_tmpfile},
    {"odd", Class::kDescriptor, 1, run_odd},
    {"directory", Class::kDescriptor, 1, run_directory},
    {"dup", Class::kDescriptor, 4, run_duplicate},
    {"dup2", Class::kDescriptor, 4, run_duplicate_onto},
    {"close", Class::kDescriptor, 8, run_close},
    {"close_range", Class::kDescriptor, 1, run_close_range},
    {"unshare", Class::kDescriptor, 1, run_unshare},
    {"closefrom", Class::kDescriptor, 1, run_closefrom},
    {"send", Class::kProcess, 1, run_send},
};

}  // namespace

Kinds open_kinds() { return {kKinds, std::size(kKinds)}; }

}  // namespace diff
