// SPDX-License-Identifier: MIT
// The environment is the only way in for users, and its values are anything:
// typing errors, other programs' ideas, attacks. The program must run with the
// default, and the user must be told once, legibly, what was not understood.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "core/config.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "core/log.h"
#include "core/system_limits.h"

using namespace racache;
using std::string;

namespace {

// A Config from strings, and what was written to descriptor 2 meanwhile.
class Loaded {
 public:
  explicit Loaded(std::vector<string> variables) {
    std::vector<const char*> environment;
    for (const string& v : variables) environment.push_back(v.c_str());
    environment.push_back(nullptr);
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
    const int old = dup(2);
    dup2(ends[1], 2);
    close(ends[1]);
    log::init(LogLevel::kWarn);
    load_config(config, environment.data());
    dup2(old, 2);
    close(old);
    char buffer[4096];
    for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) {
      said.append(buffer, static_cast<size_t>(n));
    }
    close(ends[0]);
  }
  ~Loaded() { unload_config(config); }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  size_t lines() const {
    size_t n = 0;
    for (char c : said) n += c == '\n';
    return n;
  }

  Config config;
  string said;
};

string value_of(const Config& config, size_t row) {
  const size_t n = option_value(config, row, nullptr, 0);
  string s(n + 1, 0);
  CHECK(option_value(config, row, s.data(), s.size()) == n);
  s.pop_back();
  return s;
}

size_t row_count() {
  size_t n;
  (void)option_rows(&n);
  return n;
}
const OptionRow& row(size_t i) {
  size_t n;
  return option_rows(&n)[i];
}
size_t row_named(const string& name) {
  size_t i = 0;
  while (name != row(i).name) ++i;
  return i;
}

// Everything but the size, which depends on the machine.
void check_same(const Config& a, const Config& b) {
  for (size_t i = 0; i < row_count(); ++i) {
    INFO(row(i).name);
    CHECK(value_of(a, i) == value_of(b, i));
  }
  CHECK(a.enabled == b.enabled);
  CHECK(a.read_ahead_kb == b.read_ahead_kb);
  CHECK(a.io_kb == b.io_kb);
  CHECK(a.max_order == b.max_order);
  CHECK(a.min_file == b.min_file);
  CHECK(string(a.include) == b.include);
  CHECK(string(a.exclude) == b.exclude);
  CHECK(string(a.programs) == b.programs);
  CHECK(a.io == b.io);
  CHECK(a.huge_pages == b.huge_pages);
  CHECK(a.populate == b.populate);
  CHECK(a.coherence == b.coherence);
  CHECK(a.stats == b.stats);
  CHECK(string(a.stats_path) == b.stats_path);
  CHECK(a.live == b.live);
  CHECK(string(a.live_directory) == b.live_directory);
  CHECK(a.poll_us == b.poll_us);
  CHECK(a.depth == b.depth);
  CHECK(a.verify == b.verify);
  CHECK(a.log == b.log);
  CHECK(a.large_forced == b.large_forced);
  CHECK(a.half_window == b.half_window);
  CHECK(a.single_lookup == b.single_lookup);
  CHECK(a.overlap_skip == b.overlap_skip);
}

uint64_t quarter() {
  const uint64_t q = limits::read_memory().usable() / 4;
  return std::max<uint64_t>(q / kBlockSize * kBlockSize, 8 << 20);
}

}  // namespace

TEST_CASE("an empty environment gives the defaults, silently") {
  Loaded none({});
  CHECK(none.said == "");
  Config defaults;
  defaults.size_bytes = none.config.size_bytes;
  check_same(none.config, defaults);
  CHECK(none.config.size_bytes == quarter());
  Config from_null;
  load_config(from_null, nullptr);
  CHECK(from_null.size_bytes == quarter());
}

TEST_CASE("each row's default, given by name, is the default Config") {
  Loaded none({});
  for (size_t i = 0; i < row_count(); ++i) {
    INFO(row(i).name);
    Loaded one({string(row(i).name) + "=" + row(i).fallback});
    CHECK(one.said == "");
    CHECK(one.config.size_bytes == none.config.size_bytes);
    check_same(one.config, none.config);
  }
}

TEST_CASE("every row is complete, short and unique") {
  CHECK(row_count() == 21);
  for (size_t i = 0; i < row_count(); ++i) {
    INFO(row(i).name);
    CHECK(string(row(i).name).starts_with("RACACHE"));
    CHECK(string(row(i).accepts) != "");
    CHECK(string(row(i).help).size() > 10);
    CHECK(string(row(i).help).size() <= 72);
    CHECK(row_named(row(i).name) == i);
  }
}

TEST_CASE("a value in force is accepted again and means the same") {
  Loaded first({"RACACHE=0",
                "RACACHE_SIZE=64M",
                "RACACHE_READ_AHEAD_KB=512",
                "RACACHE_IO_KB=128",
                "RACACHE_MAX_ORDER=0",
                "RACACHE_MIN_FILE=1000001",
                "RACACHE_INCLUDE=/a:/b*",
                "RACACHE_EXCLUDE=*.log",
                "RACACHE_PROGRAMS=!sh:fio",
                "RACACHE_IO=threads",
                "RACACHE_HUGEPAGES=never",
                "RACACHE_POPULATE=1",
                "RACACHE_COHERENCE=trust",
                "RACACHE_STATS=json:/tmp/%p.%c",
                "RACACHE_LIVE=/run/x",
                "RACACHE_POLL_US=0",
                "RACACHE_DEPTH=4",
                "RACACHE_EVICT=lru",
                "RACACHE_VERIFY=100",
                "RACACHE_LOG=debug",
                "RACACHE_DISABLE=overlap_skip,half_window"});
  CHECK(first.said == "");
  const Config& c = first.config;
  CHECK_FALSE(c.enabled);
  CHECK(c.size_bytes == 64 << 20);
  CHECK(c.read_ahead_kb == 512);
  CHECK(c.io_kb == 128);
  CHECK(c.max_order == 0);
  CHECK(c.min_file == 1000001);
  CHECK(string(c.include) == "/a:/b*");
  CHECK(string(c.exclude) == "*.log");
  CHECK(string(c.programs) == "!sh:fio");
  CHECK(c.io == IoMode::kThreads);
  CHECK(c.huge_pages == HugePages::kNever);
  CHECK(c.populate);
  CHECK(c.coherence == Coherence::kTrust);
  CHECK(c.stats == StatsTarget::kJson);
  CHECK(string(c.stats_path) == "/tmp/%p.%c");
  CHECK(c.live);
  CHECK(string(c.live_directory) == "/run/x");
  CHECK(c.poll_us == 0);
  CHECK(c.depth == 4);
  CHECK(c.evict == EvictKind::kLru);
  CHECK(c.verify == 100);
  CHECK(c.log == LogLevel::kDebug);
  CHECK(c.large_forced);
  CHECK_FALSE(c.half_window);
  CHECK(c.single_lookup);
  CHECK_FALSE(c.overlap_skip);
  std::vector<string> again;
  for (size_t i = 0; i < row_count(); ++i) {
    again.push_back(string(row(i).name) + "=" + value_of(c, i));
  }
  Loaded second(again);
  CHECK(second.said == "");
  CHECK(second.config.size_bytes == c.size_bytes);
  check_same(second.config, c);
}

TEST_CASE("sizes") {
  auto size = [](const char* s) {
    return Loaded({string("RACACHE_SIZE=") + s}).config.size_bytes;
  };
  CHECK(size("8M") == 8 << 20);
  CHECK(size("8388608") == 8388608);
  CHECK(size("16384K") == 16 << 20);
  CHECK(size("32m") == 32 << 20);
  CHECK(size("25%") == quarter());
  const uint64_t usable = limits::read_memory().usable();
  CHECK(size("1%") >= 8 << 20);
  CHECK(size("90%") <= usable / 10 * 9 + 100);
  CHECK(size("90%") > usable / 10 * 8);
}

TEST_CASE("a bad size: one line, the default") {
  const uint64_t fallback = quarter();
  for (const char* bad : {"lots",
                          "",
                          "0",
                          "-1",
                          "-5M",
                          "+5M",
                          "7M",
                          "8388607",
                          "5MB",
                          "M",
                          "%",
                          "0%",
                          "91%",
                          "100%",
                          "-5%",
                          "2.5G",
                          "1e9",
                          "0x10000000",
                          " 64M",
                          "64M ",
                          "99999999999999999999999999",
                          "18446744073709551615G",
                          "17179869185K%",
                          "17592186044417",
                          "64M\n",
                          "%s%n",
                          "\xff\xfe"}) {
    INFO(bad);
    Loaded l({string("RACACHE_SIZE=") + bad});
    CHECK(l.config.size_bytes == fallback);
    CHECK(l.lines() == 1);
    CHECK(l.said.starts_with("racache: RACACHE_SIZE="));
    CHECK(l.said.find("not understood (accepts ") != string::npos);
    CHECK(l.said.ends_with("; using 25%\n"));
  }
}

TEST_CASE("more than the machine has is cut to what is there") {
  Loaded l({"RACACHE_SIZE=16383G"});
  CHECK(l.config.size_bytes <= limits::read_memory().usable() / 10 * 9);
  CHECK(l.config.size_bytes >= 8 << 20);
  CHECK(l.lines() == 1);
}

TEST_CASE("bad values of every other kind: one line naming the default") {
  struct Bad {
    const char* name;
    const char* value;
  };
  for (const Bad& bad : std::vector<Bad>{{"RACACHE", "yes"},
                                         {"RACACHE", ""},
                                         {"RACACHE", "ON"},
                                         {"RACACHE_READ_AHEAD_KB", "-1"},
                                         {"RACACHE_READ_AHEAD_KB", "1048577"},
                                         {"RACACHE_READ_AHEAD_KB", "128K"},
                                         {"RACACHE_IO_KB", "0"},
                                         {"RACACHE_IO_KB", "Auto"},
                                         {"RACACHE_MAX_ORDER", "10"},
                                         {"RACACHE_MAX_ORDER", "4294967296"},
                                         {"RACACHE_MIN_FILE", "-64K"},
                                         {"RACACHE_MIN_FILE", "17179869184G"},
                                         {"RACACHE_IO", "io_uring"},
                                         {"RACACHE_HUGEPAGES", "1"},
                                         {"RACACHE_POPULATE", "2"},
                                         {"RACACHE_COHERENCE", "none"},
                                         {"RACACHE_STATS", "json"},
                                         {"RACACHE_STATS", "json:"},
                                         {"RACACHE_STATS", "/tmp/x"},
                                         {"RACACHE_LIVE", "here"},
                                         {"RACACHE_LIVE", ""},
                                         {"RACACHE_STATS", ""},
                                         {"RACACHE_POLL_US", "1000001"},
                                         {"RACACHE_DEPTH", "0"},
                                         {"RACACHE_DEPTH", "65"},
                                         {"RACACHE_VERIFY", "4294967296"},
                                         {"RACACHE_VERIFY", "-1"},
                                         {"RACACHE_LOG", "verbose"}}) {
    INFO(bad.name << '=' << bad.value);
    Loaded l({string(bad.name) + "=" + bad.value});
    Loaded none({});
    check_same(l.config, none.config);
    CHECK(l.said == string("racache: ") + bad.name + "=" + bad.value +
                        ": not understood (accepts " +
                        row(row_named(bad.name)).accepts + "); using " +
                        row(row_named(bad.name)).fallback + "\n");
  }
}

TEST_CASE("live statistics are written to the user's own directory") {
  const auto directory = [](std::vector<string> environment) {
    Loaded l(std::move(environment));
    TextBuffer<256> path;
    live_directory(l.config, path);
    return string(path.c_str());
  };
  CHECK(directory({"RACACHE_LIVE=on", "XDG_RUNTIME_DIR=/run/x"}) ==
        "/run/x/racache");
  CHECK(directory({"RACACHE_LIVE=/own", "XDG_RUNTIME_DIR=/run/x"}) == "/own");
  const string guess =
      geteuid() == 0 ? "/run/racache"
                     : "/run/user/" + std::to_string(geteuid()) + "/racache";
  CHECK(directory({"RACACHE_LIVE=on"}) == guess);
  CHECK(directory({"RACACHE_LIVE=on", "XDG_RUNTIME_DIR=here"}) == guess);
}

TEST_CASE("hostile values are shown short and harmless") {
  Loaded l({"RACACHE_SIZE=" + string(10240, 'A')});
  CHECK(l.lines() == 1);
  CHECK(l.said.size() < 200);
  CHECK(l.said.find("AAA...: not understood") != string::npos);
  Loaded m({"RACACHE_IO=a\nracache: fake\x1b[2J\xff%n\xe2\x82\xac"});
  CHECK(m.lines() == 1);
  CHECK(m.said.find("a?racache: fake?[2J?%n\xe2\x82\xac: not") != string::npos);
  Loaded path({"RACACHE_STATS=json:" + string(10240, '/')});
  CHECK(path.lines() == 1);
  CHECK(path.config.stats == StatsTarget::kStderr);
}

TEST_CASE("unknown names are reported, other people's are not") {
  Loaded l({"RACACHE_SZIE=1G", "RACACHED=1", "RACACHE", "PATH=/bin", "=x", "",
            "RACACHE_LIBRARY=/lib/x.so", "racache_size=1"});
  CHECK(l.lines() == 1);
  CHECK(l.said.starts_with("racache: RACACHE_SZIE: no such option"));
  Loaded odd({"RACACHE_" + string(10240, '\n') + "=1", "RACACHE_=2"});
  CHECK(odd.lines() == 2);
  CHECK(odd.said.size() < 400);
  Loaded quiet({"RACACHE_SZIE=1G", "RACACHE_LOG=error"});
  CHECK(quiet.said == "");
}

TEST_CASE("the first of two counts, as for getenv") {
  Loaded l({"RACACHE_MAX_ORDER=3", "RACACHE_MAX_ORDER=5", "RACACHE_IO=bad",
            "RACACHE_IO=off"});
  CHECK(l.config.max_order == 3);
  CHECK(l.config.io == IoMode::kAuto);
  CHECK(l.lines() == 1);
}

TEST_CASE(
    "RACACHE_DISABLE applies the words it knows and names one it does not") {
  Loaded l({"RACACHE_DISABLE=,half_window,,halfwindow,single_lookup,x,"});
  CHECK_FALSE(l.config.half_window);
  CHECK_FALSE(l.config.single_lookup);
  CHECK(l.config.large_forced);
  CHECK(l.config.overlap_skip);
  CHECK(l.lines() == 1);
  CHECK(l.said.find("RACACHE_DISABLE=halfwindow: ") != string::npos);
}

TEST_CASE("strings outlive the environment they came from") {
  char variable[] = "RACACHE_EXCLUDE=/tmp";
  char empty[] = "RACACHE_INCLUDE=";
  const char* environment[] = {variable, empty, nullptr};
  Config config;
  load_config(config, environment);
  // As programs do to set their title.
  memset(variable, 'x', sizeof variable - 1);
  memset(empty, 'x', sizeof empty);
  CHECK(string(config.exclude) == "/tmp");
  CHECK(string(config.include) == "");
  unload_config(config);
  CHECK(string(config.exclude) == "");
}

TEST_CASE("option_value counts like snprintf") {
  Loaded l({"RACACHE_EXCLUDE=/some/path"});
  const size_t i = row_named("RACACHE_EXCLUDE");
  char small[5];
  CHECK(option_value(l.config, i, small, sizeof small) == 10);
  CHECK(string(small) == "/som");
}

TEST_CASE("the number of lines is bounded whatever the environment") {
  std::vector<string> many;
  for (int i = 0; i < 500; ++i)
    many.push_back("RACACHE_X" + std::to_string(i) + "=1");
  CHECK(Loaded(many).lines() == log::kMaxLines);
}

TEST_CASE("random environments never do harm") {
  std::mt19937 random(4);
  for (int i = 0; i < 3000; ++i) {
    string value;
    for (unsigned n = random() % 30; n > 0; --n) {
      value += static_cast<char>(1 + random() % 255);
    }
    Loaded l({string(row(random() % row_count()).name) + "=" + value});
    CHECK(l.lines() <= 1);
    CHECK(l.config.size_bytes >= 8 << 20);
    CHECK(l.config.max_order <= 9);
  }
}
