// SPDX-License-Identifier: MIT
#include "cli/bench/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <cstdlib>
#include <sstream>
#include <system_error>

namespace racache::cli::bench {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
volatile sig_atomic_t g_signal = 0;
struct sigaction g_before[3];

void note(int number) { g_signal = number; }

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// Both ends close on exec; dup2() makes those that the child is to have.
struct Pipe {
  int ends[2];
  Pipe() {
    if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
  }
  ~Pipe() {
    close(ends[0]);
    close_writer();
  }
  void close_writer() {
    if (ends[1] >= 0) close(ends[1]);
    ends[1] = -1;
  }
};

[[noreturn]] void become(const std::vector<std::string>& arguments,
                         const Environment& environment, int out, int err) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setpgid(0, 0);
  for (const int number : kSignals) signal(number, SIG_DFL);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, STDIN_FILENO);
  if (null > STDERR_FILENO) close(null);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  for (const auto& [name, value] : environment) {
    value.empty() ? unsetenv(name.c_str())
                  : setenv(name.c_str(), value.c_str(), 1);
  }
  std::vector<char*> argv;
  for (const std::string& a : arguments) {
    argv.push_back(const_cast<char*>(a.c_str()));
  }
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  dprintf(STDERR_FILENO, "%s: errno %d\n", argv[0], errno);
  _exit(127);
}

// What is left of a child however its story ends.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) { setpgid(pid, pid); }
  ~Child() {
    if (pid_ <= 0) return;
    kill(-pid_, SIGKILL);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  void wait(Ended& ended) {
    int status = 0;
    rusage used{};
    while (wait4(pid_, &status, 0, &used) < 0) {
      throw_if_interrupted();
      if (errno != EINTR) fail("wait4");
    }
    pid_ = 0;
    ended.usage = to_usage(used);
    ended.status =
        WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  pid_t pid_;
};

// False at the end of what the pipe brings.
bool take(int fd, std::string& to) {
  char buffer[4096];
  const ssize_t n = read(fd, buffer, sizeof buffer);
  if (n > 0) to.append(buffer, static_cast<size_t>(n));
  return n > 0 || (n < 0 && errno == EINTR);
}

void collect(int out, int err, Ended& ended) {
  pollfd fds[2] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
  constexpr int kLookMs = 200;  // a signal may come just before poll(2)
  while (fds[0].fd >= 0 || fds[1].fd >= 0) {
    throw_if_interrupted();
    if (poll(fds, 2, kLookMs) <= 0) continue;
    if (fds[0].revents != 0 && !take(out, ended.output)) fds[0].fd = -1;
    if (fds[1].revents != 0 && !take(err, ended.errors)) fds[1].fd = -1;
  }
}

}  // namespace

SignalWatch::SignalWatch() {
  struct sigaction action = {};
  action.sa_handler = note;
  for (int i = 0; i < 3; ++i) sigaction(kSignals[i], &action, &g_before[i]);
}

SignalWatch::~SignalWatch() {
  for (int i = 0; i < 3; ++i) sigaction(kSignals[i], &g_before[i], nullptr);
}

void throw_if_interrupted() {
  if (g_signal != 0) throw Interrupted(g_signal);
}

Ended run_program(const std::vector<std::string>& arguments,
                  const Environment& environment) {
  throw_if_interrupted();
  Pipe out, err;
  const pid_t pid = fork();
  if (pid < 0) fail("fork");
  if (pid == 0) become(arguments, environment, out.ends[1], err.ends[1]);
  Child child(pid);
  out.close_writer();
  err.close_writer();
  Ended ended{0, "", "", {}};
  collect(out.ends[0], err.ends[0], ended);
  child.wait(ended);
  return ended;
}

std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream places(path != nullptr ? path : "/usr/bin:/bin");
  for (std::string place; std::getline(places, place, ':');) {
    const std::string candidate = place + "/" + name;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

}  // namespace racache::cli::bench
