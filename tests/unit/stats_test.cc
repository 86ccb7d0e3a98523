// SPDX-License-Identifier: MIT
// The statistics are how users judge the cache, and other programs parse them:
// the JSON keys are a promise. They are written while the process is dying, to
// a place that somebody else may have prepared, so refusals are tested too.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "core/stats.h"

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
#include <set>
#include <sstream>
#include <string>

#include "core/log.h"

using namespace racache;
using nlohmann::json;
using std::string;

namespace {

// Every counter has another value, so that two that are mixed up show.
Snapshot sample() {
  Snapshot s{};
  uint64_t n = 100;
#define RACACHE_X(name) s.counters.name = ++n;
  RACACHE_COUNTERS(RACACHE_X)
#undef RACACHE_X
  s.counters.hits = 900;
  s.counters.misses = 100;
  s.counters.device_bytes = 1 << 20;
  s.counters.used_bytes = 1 << 19;
  s.counters.wait_ns = 1500000000;
  s.counters.verify_failures = 0;
  for (unsigned i = 0; i < kOrders; ++i) {
    s.counters.inserted_by_order[i] = 500 + i;
    s.live_by_order[i] = 600 + i;
  }
  s.live_folios = 700;
  s.kernel_files[static_cast<size_t>(Reason::kSmall)] = 5;
  s.kernel_files[static_cast<size_t>(Reason::kNotOwner)] = 2;
  s.memory_limit = 801;
  s.memory_used = 802;
  s.memory_metadata = 803;
  s.memory_huge = 804;
  s.io = "threads";
  s.io_why = "io_uring: EPERM (seccomp?)";
  s.top_count = 1;
  strcpy(s.top[0].path, "/data/a.sst");
  s.top[0].reads = 11;
  s.top[0].hits = 10;
  s.top[0].device_bytes = 12;
  s.seconds = 1.25;
  s.pid = 4321;
  strcpy(s.program, "db_bench");
  return s;
}

string text_of(const Snapshot& s, const Config& config = {}) {
  static char room[1 << 20];
  Text out(room, sizeof room);
  const size_t length = stats::format_text(s, config, out);
  CHECK(length == strlen(room));
  CHECK_FALSE(out.truncated());
  return room;
}

json json_of(const Snapshot& s, const Config& config = {}) {
  static char room[4 << 20];
  Text out(room, sizeof room);
  const size_t length = stats::format_json(s, config, out);
  CHECK(length == strlen(room));
  CHECK_FALSE(out.truncated());
  return json::parse(room);  // throws on anything that is not JSON
}

// "reads.calls" and so on: every path to a leaf, objects and arrays opened.
void collect(const json& j, const string& at, std::set<string>& keys) {
  if (j.is_object()) {
    for (const auto& [key, value] : j.items()) {
      collect(value, at.empty() ? key : at + "." + key, keys);
    }
  } else {
    keys.insert(at + (j.is_array() ? "[]" : ""));
  }
}
std::set<string> keys_of(json j, const char* but) {
  j.erase(but);
  std::set<string> keys;
  collect(j, "", keys);
  return keys;
}

size_t line_count(const string& s) {
  size_t n = 0;
  for (char c : s) n += c == '\n';
  return n;
}

bool has(const string& s, const char* part) {
  INFO(s);
  return s.find(part) != string::npos;
}

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

TEST_CASE("the JSON keys are the promised ones, no more and no fewer") {
  const std::set<string> expected = {"version",
                                     "pid",
                                     "program",
                                     "seconds",
                                     "reads.calls",
                                     "reads.bytes",
                                     "reads.hits",
                                     "reads.misses",
                                     "reads.hit_bytes",
                                     "reads.syscalls_avoided",
                                     "device.requests",
                                     "device.bytes",
                                     "device.used_bytes",
                                     "device.from_page_cache_bytes",
                                     "readahead.sync_windows",
                                     "readahead.async_windows",
                                     "readahead.forced",
                                     "readahead.standalone",
                                     "readahead.marks_hit",
                                     "readahead.overlap_skips",
                                     "readahead.trims_avoided",
                                     "folios.live",
                                     "folios.by_order[]",
                                     "folios.inserted_by_order[]",
                                     "folios.order_fallbacks",
                                     "folios.evicted",
                                     "index.lookups",
                                     "waits.count",
                                     "waits.seconds",
                                     "files.adopted",
                                     "files.lease_breaks",
                                     "files.kernel.size: small",
                                     "files.kernel.lease: EACCES (not owner)",
                                     "memory.limit",
                                     "memory.used",
                                     "memory.metadata",
                                     "memory.huge",
                                     "top_files[]"};
  const json j = json_of(sample());
  CHECK(keys_of(j, "config") == expected);
  CHECK(j["folios"]["by_order"].size() == 10);
  CHECK(j["folios"]["inserted_by_order"].size() == 10);
  std::set<string> file_keys;
  collect(j["top_files"][0], "", file_keys);
  CHECK(file_keys == std::set<string>{"path", "reads", "hits", "device_bytes"});
}

TEST_CASE("config holds every option as its variable would be written") {
  Config config;
  config.exclude = "/a\"b:\\c\n";
  config.size_bytes = 64 << 20;
  config.read_ahead_kb = 128;
  const json c = json_of(sample(), config)["config"];
  size_t rows;
  const OptionRow* row = option_rows(&rows);
  CHECK(c.size() == rows);
  for (size_t i = 0; i < rows; ++i) CHECK(c.contains(row[i].name));
  CHECK(c["RACACHE_EXCLUDE"] == "/a\"b:\\c\n");
  CHECK(c["RACACHE_SIZE"] == "64M");
  CHECK(c["RACACHE_READ_AHEAD_KB"] == "128");
  CHECK(c["RACACHE_IO"] == "auto");
}

TEST_CASE("each JSON value is the counter of its name") {
  const Snapshot s = sample();
  const Counters& c = s.counters;
  const json j = json_of(s);
  CHECK(j["version"] == RACACHE_VERSION);
  CHECK(j["pid"] == 4321);
  CHECK(j["program"] == "db_bench");
  CHECK(j["seconds"] == 1.25);
  CHECK(j["reads"]["calls"] == c.read_calls);
  CHECK(j["reads"]["bytes"] == c.read_bytes);
  CHECK(j["reads"]["hits"] == c.hits);
  CHECK(j["reads"]["misses"] == c.misses);
  CHECK(j["reads"]["hit_bytes"] == c.hit_bytes);
  CHECK(j["reads"]["syscalls_avoided"] == c.syscalls_avoided);
  CHECK(j["device"]["requests"] == c.device_requests);
  CHECK(j["device"]["bytes"] == c.device_bytes);
  CHECK(j["device"]["used_bytes"] == c.used_bytes);
  CHECK(j["device"]["from_page_cache_bytes"] == c.from_page_cache_bytes);
  CHECK(j["readahead"]["sync_windows"] == c.sync_windows);
  CHECK(j["readahead"]["async_windows"] == c.async_windows);
  CHECK(j["readahead"]["forced"] == c.forced);
  CHECK(j["readahead"]["standalone"] == c.standalone);
  CHECK(j["readahead"]["marks_hit"] == c.marks_hit);
  CHECK(j["readahead"]["overlap_skips"] == c.overlap_skips);
  CHECK(j["readahead"]["trims_avoided"] == c.trims_avoided);
  CHECK(j["folios"]["live"] == 700);
  CHECK(j["folios"]["by_order"][9] == 609);
  CHECK(j["folios"]["inserted_by_order"][0] == 500);
  CHECK(j["folios"]["order_fallbacks"] == c.order_fallbacks);
  CHECK(j["folios"]["evicted"] == c.evicted);
  CHECK(j["index"]["lookups"] == c.lookups);
  CHECK(j["waits"]["count"] == c.wait_count);
  CHECK(j["waits"]["seconds"] == 1.5);
  CHECK(j["files"]["adopted"] == c.adopted);
  CHECK(j["files"]["lease_breaks"] == c.lease_breaks);
  CHECK(j["files"]["kernel"]["size: small"] == 5);
  CHECK(j["memory"]["limit"] == 801);
  CHECK(j["memory"]["used"] == 802);
  CHECK(j["memory"]["metadata"] == 803);
  CHECK(j["memory"]["huge"] == 804);
  CHECK(j["top_files"][0]["path"] == "/data/a.sst");
  CHECK(j["top_files"][0]["reads"] == 11);
  CHECK(j["top_files"][0]["hits"] == 10);
  CHECK(j["top_files"][0]["device_bytes"] == 12);
}

TEST_CASE("an empty snapshot is JSON with the same keys but no reasons") {
  const json j = json_of(Snapshot{});
  CHECK(j["files"]["kernel"].is_object());
  CHECK(j["files"]["kernel"].empty());
  CHECK(j["top_files"].is_array());
  CHECK(j["top_files"].empty());
  CHECK(j["seconds"] == 0.0);
}

TEST_CASE("extreme and hostile snapshots are valid JSON and at most 15 lines") {
  Snapshot s;
  memset(&s, 0xff, sizeof s);
  s.io = nullptr;
  s.io_why = nullptr;
  s.top_count = 4000000000u;
  memset(s.program, '\x01', sizeof s.program);
  s.program[sizeof s.program - 1] = 0;
  for (TopFile& file : s.top) {
    memset(file.path, '\n', sizeof file.path);
    file.path[sizeof file.path - 1] = 0;
  }
  s.seconds = std::numeric_limits<double>::quiet_NaN();
  const json j = json_of(s);
  CHECK(j["reads"]["calls"] == ~uint64_t{0});
  CHECK(j["top_files"].size() == kTopFiles);
  const string text = text_of(s);
  CHECK(line_count(text) <= stats::kMaxTextLines);
}

TEST_CASE("text: what an operator looks for") {
  const string t = text_of(sample());
  CHECK(line_count(t) <= 15);
  CHECK(has(t, "db_bench, pid 4321, 1.25 s\n"));
  CHECK(has(t, "hits 90.0%"));
  CHECK(has(t, "1 MiB in 107 requests, used 50.0%"));
  CHECK(has(t, "in all, mean "));
  CHECK(has(t, "threads (io_uring: EPERM (seccomp?))"));
  CHECK(has(t, "5 size: small; 2 lease: EACCES (not owner)\n"));
  CHECK(has(t, "4K: 500, 8K: 501,"));
  CHECK(has(t, "1M: 508, 2M: 509\n"));
  CHECK(has(t, "/data/a.sst\n"));
  CHECK_FALSE(has(t, "VERIFY"));
}

TEST_CASE("text lines are prefixed, aligned and not wide") {
  std::istringstream lines(text_of(sample()));
  for (string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(line.starts_with("racache: "));
    REQUIRE(line.size() > 24);
    CHECK(line[23] == ' ');
    CHECK(line[24] != ' ');
    CHECK(line.size() <= 150);
  }
}

TEST_CASE("text: verification failures are shown, and only then") {
  Snapshot s = sample();
  s.counters.verified = 50;
  s.counters.verify_failures = 3;
  CHECK(has(text_of(s), "VERIFY         3 of 50 compared reads differed"));
}

TEST_CASE("text: most frequent reasons first, the rest summed") {
  Snapshot s{};
  for (unsigned i = 1; i < static_cast<unsigned>(Reason::kCount); ++i) {
    s.kernel_files[i] = 1;
  }
  s.kernel_files[static_cast<size_t>(Reason::kBudget)] = 9;
  const string t = text_of(s);
  CHECK(has(t, "the kernel's   9 budget; 1 "));
  CHECK(has(t, "; 12 for other reasons\n"));
  CHECK(has(text_of(Snapshot{}), "no file\n"));
  CHECK(has(text_of(Snapshot{}), "hits none"));
}

TEST_CASE("path expansion") {
  const Snapshot s = sample();
  auto expand = [&](const char* pattern) {
    TextBuffer<64> out;
    stats::expand_path(pattern, s, out);
    return string(out.c_str());
  };
  CHECK(expand("/t/%c.%p.json") == "/t/db_bench.4321.json");
  CHECK(expand("%%p%") == "%p%");
  CHECK(expand("%x%s%n") == "%x%s%n");
  Snapshot odd = s;
  strcpy(odd.program, "../../a\nb");
  TextBuffer<64> out;
  stats::expand_path("/t/%c", odd, out);
  CHECK(string(out.c_str()) == "/t/.._.._a_b");
}

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
    stats::write(sample(), to(StatsTarget::kText, path));
    if (fcntl(0, F_GETFD) != -1 || fcntl(3, F_GETFD) != -1) _exit(1);
  });
  CHECK(content(path) == text_of(sample()));
}
