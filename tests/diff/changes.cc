// SPDX-License-Identifier: MIT
// Everything that changes files: this process by another descriptor, a child,
// a process without the library; names that move while the file is open.
#include "world.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace diff {
namespace {

// After a change, what a reader with an old descriptor sees of it.
void look_back(World& w, off_t at, size_t n) {
  int fd = w.file_fd(), error;
  at = std::max<off_t>(0, at - 100);
  n = std::min<size_t>(n + 200, 1 << 20);
  long got = DIFF_CALL(error, pread(fd, w.buffer, n, at));
  say(w, "look back: pread(%d, %zu, %ld) %s #%016lx", fd, n, at,
      result(got, error).c_str(), hash(w.buffer, got > 0 ? got : 0));
}

// By a descriptor of the program, whatever it was opened for.
void run_write(World& w) {
  int fd = w.any_fd(), error;
  size_t n = std::min<size_t>(w.any_length(), 70000);
  off_t at = w.any_offset(w.size_of(fd));
  if (at > (64 << 20)) at = 0;
  fill(w.buffer, n, w.random());
  iovec v[2] = {{w.buffer, n / 2}, {w.buffer + n / 2, n - n / 2}};
  unsigned how = w.below(5);
  errno = kErrnoMark;
  long got = how == 0   ? write(fd, w.buffer, n)
             : how == 1 ? pwrite(fd, w.buffer, n, at)
             : how == 2 ? pwrite64(fd, w.buffer, n, at)
             : how == 3 ? writev(fd, v, 2)
                        : pwritev(fd, v, 2, at);
  error = errno;
  say(w, "write%u(%d, %zu, %ld) %s", how, fd, n, how % 3 ? at : 0,
      result(got, error).c_str());
  look_back(w, at, n);
}

int open_writer(World& w, const std::string& file, int more = 0) {
  int flags = O_WRONLY | more | (w.chance(20) ? O_NONBLOCK : 0);
  return open(file.c_str(), flags);
}

// Open, write, close: the pattern of configuration files and logs.
void run_write_file(World& w) {
  const std::string& file = w.any_file();
  bool append = w.chance(40);
  int error;
  int fd = DIFF_CALL(error, open_writer(w, file, append ? O_APPEND : 0));
  off_t at = std::min<off_t>(64 << 20, w.any_offset(w.size_of(fd)));
  size_t n = w.pick({size_t(1), size_t(100), size_t(4096), size_t(9000)});
  fill(w.buffer, n, w.random());
  long got = DIFF_CALL(
      error, append ? write(fd, w.buffer, n) : pwrite(fd, w.buffer, n, at));
  close(fd);
  say(w, "%s %s at %ld by %d: %s", append ? "append to" : "write", file.c_str(),
      append ? 0 : at, fd, result(got, error).c_str());
  look_back(w, at, n);
}

void run_truncate(World& w) {
  const std::string& file = w.any_file();
  int fd = w.any_fd(), error;
  struct stat s = {};
  stat(file.c_str(), &s);
  off_t to = std::min<off_t>(8 << 20, w.any_offset(s.st_size));
  unsigned how = w.below(4);
  errno = kErrnoMark;
  long got = how == 0   ? ftruncate(fd, to)
             : how == 1 ? ftruncate64(fd, to)
             : how == 2 ? truncate64(file.c_str(), to)
                        : truncate(file.c_str(), to);
  error = errno;
  say(w, "truncate%u(%d or %s, %ld) %s", how, fd, file.c_str(), to,
      result(got, error).c_str());
  look_back(w, to, 9000);
}

void run_fallocate(World& w) {
  const std::string& file = w.any_file();
  int fd = open_writer(w, file), error;
  int mode = w.pick({0, 1 /* KEEP_SIZE */, 3 /* PUNCH_HOLE */, 0x10 /* ZERO */,
                     8 /* COLLAPSE */, 0x20 /* INSERT */});
  // Preallocated blocks make holes of uncertain size: no seeking for them.
  if (!w.stores_allowed) mode = w.pick({3, 8});
  off_t size = w.size_of(fd);
  off_t at = std::max<off_t>(0, std::min(size, w.any_offset(size)));
  off_t n = w.pick({off_t(4096), off_t(100), off_t(70000)});
  if (mode == 8 || mode == 0x20) at &= ~off_t(4095), n = 4096;
  bool wide = w.chance(50);
  long got = DIFF_CALL(
      error, wide ? fallocate64(fd, mode, at, n) : fallocate(fd, mode, at, n));
  close(fd);
  say(w, "fallocate(%s, %#x, %ld, %ld) %s", file.c_str(), mode, at, n,
      result(got, error).c_str());
  look_back(w, at, n);
}

void run_child_writes(World& w) {
  const std::string& file = w.any_file();
  uint64_t seed = w.random();
  fflush(nullptr);
  pid_t pid = fork();
  if (pid == 0) {
    fill(w.buffer, 5000, seed);
    int fd = open(file.c_str(), O_WRONLY);
    ssize_t n = pwrite(fd, w.buffer, 5000, 3000);
    _exit(n == 5000 ? 0 : 1);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  say(w, "child wrote %s: status %x", file.c_str(), status);
  look_back(w, 3000, 5000);
}

// The environment without the preload.
std::vector<char*> plain_environment() {
  std::vector<char*> list;
  for (char** e = environ; *e != nullptr; ++e)
    if (strncmp(*e, "LD_PRELOAD=", 11) != 0) list.push_back(*e);
  list.push_back(nullptr);
  return list;
}

void run_outside(World& w) {
  const std::string& file = w.any_file();
  std::string at = std::to_string(w.below(20000));
  std::string n = std::to_string(1 + w.below(9000));
  std::string seed = std::to_string(w.random() >> 1);
  std::string words[] = {w.self, "--write", file, at, n, seed};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t pid;
  int status = -1;
  std::vector<char*> environment = plain_environment();
  if (posix_spawn(&pid, w.self.c_str(), nullptr, nullptr, arguments.data(),
                  environment.data()) == 0)
    waitpid(pid, &status, 0);
  say(w, "outside writer: %s %s %s: status %x", file.c_str(), at.c_str(),
      n.c_str(), status);
  look_back(w, atol(at.c_str()), 9000);
}

void run_rename(World& w) {
  if (w.files.size() < 2) return;
  size_t i = w.below(w.files.size()), j = w.below(w.files.size());
  std::string from = w.files[i], to = w.files[j];
  int error;
  if (w.chance(50)) to = "r" + std::to_string(w.call);
  long got = DIFF_CALL(error, rename(from.c_str(), to.c_str()));
  if (got == 0) w.files[i] = to;
  say(w, "rename(%s, %s) %s", from.c_str(), to.c_str(),
      result(got, error).c_str());
}

// The name goes, the open file stays; a new one takes the name.
void run_unlink(World& w) {
  const std::string& file = w.any_file();
  int error;
  long got = DIFF_CALL(error, unlink(file.c_str()));
  int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0600);
  size_t n = w.pick({size_t(0), size_t(4097), size_t(65536), size_t(200000)});
  fill(w.buffer, n, w.random());
  ssize_t wrote = write(fd, w.buffer, n);
  close(fd);
  say(w, "unlink(%s) %s, anew with %zd", file.c_str(),
      result(got, error).c_str(), wrote);
}

constexpr Kind kKinds[] = {
    {"write", Class::kChange, 8, run_write},
    {"write_file", Class::kChange, 6, run_write_file},
    {"truncate", Class::kChange, 4, run_truncate},
    {"fallocate", Class::kChange, 3, run_fallocate},
    {"child_writes", Class::kProcess, 1, run_child_writes},
    {"outside", Class::kProcess, 2, run_outside},
    {"rename", Class::kChange, 2, run_rename},
    {"unlink", Class::kChange, 2, run_unlink},
};

}  // namespace

Kinds change_kinds() { return {kKinds, std::size(kKinds)}; }

int outside_writer(char** a) {
  static char buffer[1 << 16];
  size_t n = std::min<size_t>(sizeof buffer, strtoul(a[2], nullptr, 10));
  fill(buffer, n, strtoull(a[3], nullptr, 10));
  int fd = open(a[0], O_WRONLY);
  ssize_t wrote = pwrite(fd, buffer, n, atol(a[1]));
  return wrote == static_cast<ssize_t>(n) ? 0 : 1;
}

}  // namespace diff
