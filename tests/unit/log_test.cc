// SPDX-License-Identifier: MIT
// A library that nobody asked for must not write where it is not welcome, nor
// send the program a signal by writing. Each case runs in a forked child with
// its own descriptor 2.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "core/log.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/quiet_write.h"

using racache::LogLevel;
using racache::TextBuffer;
namespace log_ = racache::log;

namespace {

void say(LogLevel level, const char* s) {
  TextBuffer<128> t;
  t << s;
  log_::line(level, t);
}

struct Outcome {
  std::string output;
  int status;
};

// Runs `body` in a child whose descriptor 2 is a pipe; what arrives there.
Outcome child(const std::function<int()>& body) {
  int pipe_fds[2];
  REQUIRE(pipe(pipe_fds) == 0);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(pipe_fds[1], 2);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    _exit(body());
  }
  close(pipe_fds[1]);
  Outcome outcome{};
  char buffer[4096];
  for (ssize_t n; (n = read(pipe_fds[0], buffer, sizeof buffer)) > 0;) {
    outcome.output.append(buffer, static_cast<size_t>(n));
  }
  close(pipe_fds[0]);
  waitpid(pid, &outcome.status, 0);
  return outcome;
}

size_t line_count(const std::string& s) {
  size_t n = 0;
  for (char c : s) n += c == '\n';
  return n;
}

}  // namespace

TEST_CASE("levels") {
  const Outcome o = child([] {
    log_::init(LogLevel::kWarn);
    say(LogLevel::kError, "e");
    say(LogLevel::kWarn, "w");
    say(LogLevel::kInfo, "i");
    log_::set_level(LogLevel::kInfo);
    say(LogLevel::kInfo, "i2");
    say(LogLevel::kDebug, "d");
    return log_::enabled(LogLevel::kDebug) ? 1 : 0;
  });
  CHECK(o.output == "racache: e\nracache: w\nracache: i2\n");
  CHECK(o.status == 0);
}

TEST_CASE("at most 16 lines, and the last one says that there are more") {
  const Outcome o = child([] {
    log_::init(LogLevel::kWarn);
    for (int i = 0; i < 1000; ++i) say(LogLevel::kWarn, "again");
    return 0;
  });
  CHECK(line_count(o.output) == log_::kMaxLines);
  CHECK(o.output.ends_with(
      "racache: more messages follow; they are not shown\n"));
}

TEST_CASE("threads share the allowance, and their lines stay whole") {
  const Outcome o = child([] {
    log_::init(LogLevel::kWarn);
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([] {
        for (int n = 0; n < 100; ++n) say(LogLevel::kWarn, "one whole line");
      });
    }
    for (std::thread& t : threads) t.join();
    return 0;
  });
  CHECK(line_count(o.output) == log_::kMaxLines);
  std::istringstream lines(o.output);
  for (std::string line; std::getline(lines, line);) {
    const bool whole = line == "racache: one whole line" ||
                       line.starts_with("racache: more messages follow");
    CHECK_MESSAGE(whole, line);
  }
}

TEST_CASE("nothing before init, nor after descriptor 2 was replaced") {
  CHECK(child([] {
          say(LogLevel::kError, "early");
          return log_::stderr_is_ours();
        }).output == "");
  const Outcome o = child([] {
    log_::init(LogLevel::kWarn);
    const int old = dup(2);
    close(2);
    say(LogLevel::kError, "closed");
    int others[2];
    if (pipe(others) != 0) return 1;
    dup2(others[1], 2);
    if (log_::stderr_is_ours()) return 2;
    say(LogLevel::kError, "into somebody's pipe");
    fcntl(others[0], F_SETFL, O_NONBLOCK);
    char c;
    if (read(others[0], &c, 1) != -1) return 3;
    dup2(old, 2);  // the first one again
    say(LogLevel::kError, "back");
    return 0;
  });
  CHECK(o.output == "racache: back\n");
  CHECK(o.status == 0);
}

TEST_CASE("a program started with a closed descriptor 2 is left alone") {
  const Outcome o = child([] {
    const int keep = dup(2);
    close(2);
    log_::init(LogLevel::kWarn);
    dup2(keep, 2);  // what the program opens as 2 later is the program's
    say(LogLevel::kError, "no");
    return 0;
  });
  CHECK(o.output == "");
}

TEST_CASE("a reader that went away does not kill the program") {
  const Outcome o = child([] {
    int broken[2];
    if (pipe(broken) != 0) return 1;
    dup2(broken[1], 2);
    close(broken[0]);
    log_::init(LogLevel::kWarn);
    say(LogLevel::kError, "nobody reads this");
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, SIGPIPE) ? 2 : 0;
  });
  CHECK(WIFEXITED(o.status));
  CHECK(WEXITSTATUS(o.status) == 0);
}

TEST_CASE("the program's own pending SIGPIPE is not taken from it") {
  const Outcome o = child([] {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    raise(SIGPIPE);
    int broken[2];
    if (pipe(broken) != 0) return 1;
    close(broken[0]);
    const iovec piece{const_cast<char*>("x"), 1};
    if (racache::quiet_write(broken[1], &piece, 1) != -EPIPE) return 2;
    sigset_t pending;
    sigpending(&pending);
    sigset_t mask;
    sigprocmask(SIG_BLOCK, nullptr, &mask);
    if (!sigismember(&mask, SIGPIPE)) return 3;
    return sigismember(&pending, SIGPIPE) ? 0 : 4;
  });
  CHECK(o.status == 0);
}

TEST_CASE("a file-size limit of zero does not kill the program") {
  const Outcome o = child([] {
    char name[] = "/tmp/racache-log-XXXXXX";
    const int fd = mkstemp(name);
    unlink(name);
    const rlimit none{0, 0};
    setrlimit(RLIMIT_FSIZE, &none);
    return racache::quiet_write_all(fd, "abc", 3) == -EFBIG ? 0 : 1;
  });
  CHECK(WIFEXITED(o.status));
  CHECK(WEXITSTATUS(o.status) == 0);
}

TEST_CASE("errno stays what it was") {
  const Outcome o = child([] {
    close(2);
    errno = 77;
    log_::init(LogLevel::kWarn);
    say(LogLevel::kError, "x");
    return errno == 77 ? 0 : 1;
  });
  CHECK(o.status == 0);
}
