// SPDX-License-Identifier: MIT
// Other processes that share our descriptors: what a child reads moves the
// position of the parent, and the reverse. Each child is waited for.
#include "world.h"

#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace diff {
namespace {

constexpr int kShellFd = 9;

void child_reads(World& w, int fd, uint64_t choice) {
  int error;
  long got = DIFF_CALL(error, read(fd, w.buffer, 3000));
  say(w, "child read(%d) %s #%016lx", fd, result(got, error).c_str(),
      hash(w.buffer, got > 0 ? got : 0));
  got = DIFF_CALL(error, pread(fd, w.buffer, 70000, choice % 60000));
  say(w, "child pread(%d) %s #%016lx", fd, result(got, error).c_str(),
      hash(w.buffer, got > 0 ? got : 0));
  if (choice & 1) {
    got = DIFF_CALL(error, lseek(fd, 4000, SEEK_CUR));
    say(w, "child lseek(%d) %s", fd, result(got, error).c_str());
  }
  if (choice & 2) {
    int own = open(w.files[choice % w.files.size()].c_str(), O_RDONLY);
    for (int i = 0; i < 3; ++i) got = read(own, w.buffer, 50000);
    say(w, "child own %d: %ld #%016lx", own, got,
        hash(w.buffer, got > 0 ? got : 0));
    close(own);
  }
  if (choice & 4) close(fd);
}

void run_fork(World& w) {
  int fd = w.any_fd();
  uint64_t choice = w.random();
  bool bare = w.chance(25);
  pid_t pid = bare ? _Fork() : fork();
  if (pid == 0) {
    child_reads(w, fd, choice);
    if (choice & 8) child_reads(w, w.any_fd(), choice >> 8);
    _exit(static_cast<int>(choice >> 60));
  }
  int status = -1, error;
  // Half the time the parent reads while the child lives; only pread, whose
  // result does not depend on who comes first.
  waitpid(pid, &status, 0);
  long got = DIFF_CALL(error, read(fd, w.buffer, 500));
  say(w, "%s: status %x, then read(%d) %s #%016lx", bare ? "_Fork" : "fork",
      status, fd, result(got, error).c_str(),
      hash(w.buffer, got > 0 ? got : 0));
}

// Everything that comes out of a pipe; closes it.
std::string collect(World& w, int pipe_end) {
  size_t n = 0;
  for (ssize_t got;
       (got = read(pipe_end, w.buffer + n, kBufferBytes / 2 - n)) > 0;)
    n += got;
  close(pipe_end);
  char text[48];
  snprintf(text, sizeof text, "%zu bytes #%016lx", n, hash(w.buffer, n));
  return text;
}

std::string block_size(World& w) {
  return "bs=" + std::to_string(w.pick({1000, 4096, 5000, 65536}));
}

// posix_spawn of a reader whose standard input is our descriptor.
void run_spawn(World& w) {
  int fd = w.file_fd(), pair[2];
  if (fd < 0 || pipe2(pair, O_CLOEXEC) != 0) return;
  std::string block = block_size(w);
  char* const arguments[] = {const_cast<char*>("dd"), block.data(),
                             const_cast<char*>("count=2"),
                             const_cast<char*>("status=none"), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fd, 0);
  posix_spawn_file_actions_adddup2(&actions, pair[1], 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  bool path = w.chance(50);
  int got =
      path
          ? posix_spawnp(&pid, "dd", &actions, nullptr, arguments, environ)
          : posix_spawn(&pid, "/bin/dd", &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(pair[1]);
  std::string out = collect(w, pair[0]);
  int status = -1;
  if (got == 0) waitpid(pid, &status, 0);
  say(w, "spawn dd %s <&%d: %d, status %x, %s, now at %ld", block.c_str(), fd,
      got, status, out.c_str(), long(lseek(fd, 0, SEEK_CUR)));
}

// The shell reads our descriptor under a small number.
struct AtShellFd {
  int saved, fd;
  explicit AtShellFd(int from) : saved(dup(8)), fd(from) {
    dup2(from, kShellFd);
  }
  ~AtShellFd() {
    dup2(saved, kShellFd);
    close(saved);
  }
};

void run_system(World& w) {
  int fd = w.file_fd();
  if (fd < 0 || (fcntl(fd, F_GETFL) & O_PATH)) return;
  std::string command = "dd " + block_size(w) +
                        " count=1 status=none <&9 2>/dev/null | cksum >sum";
  int status;
  {
    AtShellFd use(fd);
    status = system(command.c_str());
  }
  char text[64] = {};
  int sum = open("sum", O_RDONLY);
  ssize_t n = read(sum, text, sizeof text - 1);
  close(sum);
  if (n > 0) text[n - 1] = 0;
  say(w, "system(%s) = %x, %s, %d now at %ld", command.c_str(), status, text,
      fd, long(lseek(fd, 0, SEEK_CUR)));
}

void run_popen(World& w) {
  int fd = w.file_fd();
  if (fd < 0 || (fcntl(fd, F_GETFL) & O_PATH)) return;
  AtShellFd use(fd);
  FILE* f = popen("dd bs=3000 count=2 status=none <&9 2>/dev/null | cksum",
                  w.chance(50) ? "r" : "re");
  char text[64] = {};
  if (f == nullptr || fgets(text, sizeof text, f) == nullptr) text[0] = 0;
  text[strcspn(text, "\n")] = 0;
  int status = f ? pclose(f) : -1;
  say(w, "popen(dd <&9) = %x, %s, %d now at %ld", status, text, fd,
      long(lseek(fd, 0, SEEK_CUR)));
}

// The child closes and moves numbers of its own table; the parent's, though
// in the same memory, must not notice.
__attribute__((noinline)) pid_t vfork_reader(int fd, const int* pair,
                                             char* const* arguments) {
  pid_t pid = vfork();
  if (pid == 0) {
    dup2(pair[1], 1);
    dup2(fd, 0);
    close(fd);
    close_range(3, ~0u, 0);
    execve("/bin/dd", arguments, environ);
    _exit(111);
  }
  return pid;
}

void run_vfork(World& w) {
  int fd = w.file_fd(), pair[2], error;
  if (fd < 0 || pipe2(pair, O_CLOEXEC) != 0) return;
  std::string block = block_size(w);
  char* const arguments[] = {const_cast<char*>("dd"), block.data(),
                             const_cast<char*>("count=1"),
                             const_cast<char*>("status=none"), nullptr};
  int null = open("/dev/null", O_WRONLY), keep = dup(2);
  dup2(null, 2);
  pid_t pid = vfork_reader(fd, pair, arguments);
  dup2(keep, 2);
  close(null);
  close(keep);
  close(pair[1]);
  std::string out = collect(w, pair[0]);
  int status = -1;
  waitpid(pid, &status, 0);
  long got = DIFF_CALL(error, read(fd, w.buffer, 700));
  say(w, "vfork, exec dd %s <&%d: status %x, %s, then read %s #%016lx",
      block.c_str(), fd, status, out.c_str(), result(got, error).c_str(),
      hash(w.buffer, got > 0 ? got : 0));
}

// What a child sees of the record locks of its parent.
void run_getlk(World& w) {
  int fd = w.file_fd();
  if (!w.private_file(fd)) return;
  pid_t pid = fork();
  if (pid == 0) {
    struct flock l = {};
    l.l_type = F_WRLCK;
    int error;
    long got = DIFF_CALL(error, fcntl(fd, F_GETLK, &l));
    say(w, "child F_GETLK(%d) %s: type %d, %ld bytes at %ld", fd,
        result(got, error).c_str(), l.l_type, long(l.l_len), long(l.l_start));
    _exit(0);
  }
  waitpid(pid, nullptr, 0);
}

constexpr Kind kKinds[] = {
    {"fork", Class::kProcess, 3, run_fork},
    {"spawn", Class::kProcess, 2, run_spawn},
    {"system", Class::kProcess, 1, run_system},
    {"popen", Class::kProcess, 1, run_popen},
    {"vfork", Class::kProcess, 2, run_vfork},
    {"getlk", Class::kProcess, 2, run_getlk},
};

}  // namespace

Kinds process_kinds() { return {kKinds, std::size(kKinds)}; }

}  // namespace diff
