// SPDX-License-Identifier: MIT
// Statistics are written while the process is dying, to a place that somebody
// else may have prepared. What must not happen then: another file overwritten,
// an exit held up, a signal sent, half of one process's file in another's.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "core/log.h"
#include "core/stats.h"
#include "tests/unit/stats_sample.h"

using namespace racache;
using namespace racache::test;
using nlohmann::json;

namespace {

class Directory {
 public:
  Directory() {
    char name[] = "/tmp/racache-stats-XXXXXX";
    path = mkdtemp(name);
  }
  ~Directory() { std::filesystem::remove_all(path); }
  string file(const string& name) const { return path + "/" + name; }
  string path;
};

string content(const string& path) {
  std::ostringstream s;
  s << std::ifstream(path).rdbuf();
  return s.str();
}

Config to(StatsTarget target, const string& path) {
  Config c;
  c.stats = target;
  c.stats_path = path.c_str();
  return c;
}

// What `body` writes to a fresh descriptor 2.
string stderr_of(const std::function<void()>& body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(ends[1], 2);
    close(ends[0]);
    close(ends[1]);
    log::init(LogLevel::kWarn);
    body();
    _exit(0);
  }
  close(ends[1]);
  string out;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) {
    out.append(buffer, static_cast<size_t>(n));
  }
  close(ends[0]);
  int status;
  waitpid(pid, &status, 0);
  CHECK(status == 0);
  return out;
}

}  // namespace

TEST_CASE("to a file: created for the owner alone, replaced as a whole") {
  Directory d;
  const string path = d.file("s.%p.json");
  stats::write(sample(), to(StatsTarget::kJson, path));
  const string written = d.file("s.4321.json");
  struct stat st;
  REQUIRE(stat(written.c_str(), &st) == 0);
  CHECK((st.st_mode & 077) == 0);
  CHECK(json::parse(content(written))["pid"] == 4321);
  std::ofstream(written, std::ios::app) << string(100000, 'x');
  stats::write(sample(), to(StatsTarget::kJson, path));
  CHECK(json::parse(content(written))["pid"] == 4321);
  const string as_text = d.file("t");
  stats::write(sample(), to(StatsTarget::kText, as_text));
  CHECK(content(as_text) == text_of(sample()));
}

TEST_CASE("a file keeps its statistics whole with long values") {
  Directory d;
  const string path = d.file("long.json");
  const string list(100000, '\x01');
  Config config = to(StatsTarget::kJson, path);
  config.include = config.exclude = config.programs = list.c_str();
  stats::write(sample(), config);
  CHECK(json::parse(content(path))["config"]["RACACHE_EXCLUDE"] == list);
}

TEST_CASE("refused: links, other names, FIFOs, directories, others' files") {
  Directory d;
  std::ofstream(d.file("victim")) << "precious";
  auto attempt = [&](const string& path) {
    return stderr_of(
        [&] { stats::write(sample(), to(StatsTarget::kText, path)); });
  };
  std::filesystem::create_symlink(d.file("victim"), d.file("symlink"));
  CHECK(has(attempt(d.file("symlink")), "not written to "));
  std::filesystem::create_hard_link(d.file("victim"), d.file("hard"));
  CHECK(has(attempt(d.file("hard")), ": EPERM\n"));
  CHECK(content(d.file("victim")) == "precious");
  REQUIRE(mkfifo(d.file("fifo").c_str(), 0600) == 0);
  CHECK(has(attempt(d.file("fifo")), ": ENXIO\n"));
  CHECK(has(attempt(d.path), ": EISDIR\n"));
  CHECK(has(attempt(d.file("none/x")), ": ENOENT\n"));
  CHECK(has(attempt("/dev/null"), ": EPERM\n"));
  CHECK(has(attempt(d.file(string(5000, 'x'))), ": ENAMETOOLONG\n"));
  if (geteuid() == 0) {
    std::ofstream(d.file("theirs")) << "precious";
    REQUIRE(chown(d.file("theirs").c_str(), 65534, 65534) == 0);
    CHECK(has(attempt(d.file("theirs")), ": EPERM\n"));
    CHECK(content(d.file("theirs")) == "precious");
  }
}

TEST_CASE("a lock that somebody keeps does not hold up the exit") {
  Directory d;
  const string path = d.file("locked");
  const int fd = open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  REQUIRE(flock(fd, LOCK_EX) == 0);
  const auto begin = std::chrono::steady_clock::now();
  const string said =
      stderr_of([&] { stats::write(sample(), to(StatsTarget::kJson, path)); });
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - begin;
  CHECK(took.count() < 5);
  CHECK(has(said, ": EAGAIN\n"));
  CHECK(content(path) == "");  // not half of one, half of the other
  REQUIRE(flock(fd, LOCK_UN) == 0);
  stats::write(sample(), to(StatsTarget::kJson, path));
  CHECK(json::parse(content(path))["pid"] == 4321);
  close(fd);
}

TEST_CASE("many processes with one path leave one whole file") {
  Directory d;
  const string path = d.file("shared.json");
  for (int i = 0; i < 16; ++i) {
    if (fork() != 0) continue;
    Snapshot s = sample();
    s.top_count = static_cast<unsigned>(i) % 10;  // so that lengths differ
    for (int n = 0; n < 20; ++n) {
      stats::write(s, to(StatsTarget::kJson, path));
    }
    _exit(0);
  }
  while (wait(nullptr) > 0) {
  }
  CHECK(json::accept(content(path)));
}

TEST_CASE("a file-size limit does not kill the program") {
  Directory d;
  const string path = d.file("limited");
  const string said = stderr_of([&] {
    const rlimit none{0, 0};
    setrlimit(RLIMIT_FSIZE, &none);
    stats::write(sample(), to(StatsTarget::kText, path));
  });
  CHECK(has(said, ": EFBIG\n"));
}

TEST_CASE("to stderr while it is ours, and not when nothing was cached") {
  CHECK(stderr_of([] { stats::write(sample(), Config{}); }) ==
        text_of(sample()));
  CHECK(stderr_of([] { stats::write(Snapshot{}, Config{}); }) == "");
  CHECK(stderr_of([] {
          Snapshot refused_only{};
          refused_only.kernel_files[static_cast<size_t>(Reason::kSmall)] = 9;
          stats::write(refused_only, Config{});
        }) == "");
  CHECK(stderr_of([] {
          Snapshot adopted_only{};
          adopted_only.counters.adopted = 1;
          stats::write(adopted_only, Config{});
        }) != "");
  CHECK(stderr_of([] { stats::write(sample(), to(StatsTarget::kOff, "")); }) ==
        "");
  Directory d;
  const string path = d.file("own");
  stderr_of([&] {
    close(2);
    if (open(path.c_str(), O_CREAT | O_RDWR, 0600) != 2) _exit(1);
    stats::write(sample(), Config{});
  });
  CHECK(content(path) == "");
}

TEST_CASE("a file is written although the low descriptors are closed") {
  Directory d;
  const string path = d.file("low");
  stderr_of([&] {
    close(0);
    close(1);
    close(2);
    const auto open_numbers = [] {
      unsigned set = 0;  // a bit a number; the test runner may leave some open
      for (int fd = 0; fd < 32; ++fd) {
        if (fcntl(fd, F_GETFD) != -1) set |= 1u << fd;
      }
      return set;
    };
    const unsigned before = open_numbers();
    stats::write(sample(), to(StatsTarget::kText, path));
    if (open_numbers() != before) _exit(1);
  });
  CHECK(content(path) == text_of(sample()));
}
