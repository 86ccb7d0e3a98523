// SPDX-License-Identifier: MIT
// The default cache size hangs on these numbers: a limit that is overlooked
// gets the program killed. Layouts of hosts and containers are rebuilt in a
// temporary directory, and the parsers are fed what no kernel would write.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "core/system_limits.h"

#include <doctest/doctest.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

namespace limits = racache::limits;
namespace fs = std::filesystem;
using limits::kUnlimited;
using std::string;

namespace {

// A directory that stands for "/", removed at the end.
class Root {
 public:
  Root() {
    char name[] = "/tmp/racache-limits-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~Root() { fs::remove_all(path_); }
  Root& put(const string& file, const string& content) {
    const fs::path full = path_ + file;
    fs::create_directories(full.parent_path());
    std::ofstream(full) << content;
    return *this;
  }
  // A cgroup directory with what stands in its limit file.
  Root& group(const string& directory, const string& file,
              const string& limit) {
    put(directory + "/cgroup.procs", "");
    return put(directory + "/" + file, limit);
  }
  const char* path() const { return path_.c_str(); }
  uint64_t cgroup() const { return limits::read_memory(path_.c_str()).cgroup; }

 private:
  string path_;
};

const char* const kV1Mounts =
    "22 27 0:21 / /proc rw - proc proc rw\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup "
    "rw,memory\n";

string directory_of(limits::Mount mount, const char* path, size_t* end) {
  racache::TextBuffer<1024> t;
  *end = limits::group_directory(mount, path, t);
  return t.c_str();
}

}  // namespace

TEST_CASE("limits") {
  CHECK(limits::parse_limit("max\n") == kUnlimited);
  CHECK(limits::parse_limit("1073741824\n") == 1073741824);
  CHECK(limits::parse_limit("0\n") == 0);
  CHECK(limits::parse_limit("9223372036854771712\n") == kUnlimited);
  CHECK(limits::parse_limit("18446744073709551615") == kUnlimited);
  for (const char* bad : {"", "\n", "-1", "12x", "1 2", "max max", "0x10",
                          "184467440737095516160"}) {
    CHECK(limits::parse_limit(bad) == kUnlimited);
  }
  uint64_t n = 3;
  CHECK(limits::parse_number(" 128\n", n));
  CHECK(n == 128);
  CHECK_FALSE(limits::parse_number("128 KiB", n));
  CHECK(n == 128);
}

TEST_CASE("the chosen word of a sysfs list") {
  CHECK(limits::chosen_word("always [madvise] never\n") == "madvise");
  CHECK(limits::chosen_word("[always] madvise") == "always");
  CHECK(limits::chosen_word("always").empty());
  CHECK(limits::chosen_word("").empty());
  CHECK(limits::chosen_word("a [b").empty());
  CHECK(limits::chosen_word("a ]b[").empty());
}

TEST_CASE("membership in v1, v2 and both") {
  auto m = limits::parse_membership("0::/user.slice/a:b/c\n");
  CHECK(m.v2 == "/user.slice/a:b/c");  // a colon may be part of a name
  CHECK(m.v1_memory.empty());
  m = limits::parse_membership(
      "9:name=systemd:/x\n4:cpu,memory:/jobs/7\n3:cpuset:/\n0::/\n");
  CHECK(m.v1_memory == "/jobs/7");
  CHECK(m.v2 == "/");
  m = limits::parse_membership("4:hugememory:/a\n4:memory\nmemory\n:::\n\n0::");
  CHECK(m.v1_memory.empty());
  CHECK(m.v2.empty());
  CHECK(limits::parse_membership("").v2.empty());
}

TEST_CASE("mounts") {
  auto m = limits::parse_mounts(kV1Mounts);
  CHECK(m.v1_memory.point == "/sys/fs/cgroup/memory");
  CHECK(m.v1_memory.root == "/");
  CHECK(m.v2.point.empty());
  m = limits::parse_mounts(
      "30 1 0:1 /docker/x /cg rw master:1 shared:2 - cgroup2 cgroup2 rw\n"
      "31 1 0:1 / /later rw - cgroup2 cgroup2 rw\n"
      "32 1 0:1 / /not/this rw - cgroup cgroup rw,cpu,nomemory\n");
  CHECK(m.v2.point == "/cg");
  CHECK(m.v2.root == "/docker/x");
  CHECK(m.v1_memory.point.empty());
  m = limits::parse_mounts("30 1 0:1 / /cg rw\n- cgroup2\n\n - - -\n");
  CHECK(m.v2.point.empty());
}

TEST_CASE("the directory of a group") {
  size_t end;
  CHECK(directory_of({"/", "/cg"}, "/a/b", &end) == "/cg/a/b");
  CHECK(end == 3);
  CHECK(directory_of({"/", "/cg"}, "/", &end) == "/cg");
  CHECK(directory_of({"/docker/x", "/cg"}, "/docker/x", &end) == "/cg");
  CHECK(directory_of({"/docker/x", "/cg"}, "/docker/x/y", &end) == "/cg/y");
  // Not below what is mounted: the mount point is the best guess.
  CHECK(directory_of({"/docker/x", "/cg"}, "/docker/xy", &end) == "/cg");
  CHECK(directory_of({"/docker/x", "/cg"}, "/other", &end) == "/cg");
  CHECK(directory_of({"/", "/cg"}, "/../../other", &end) == "/cg");
  CHECK(directory_of({"/", "/c\\040g\\134"}, "/a", &end) == "/c g\\/a");
  CHECK(end == 5);
  CHECK(directory_of({"/", "/c\\04"}, "", &end) == "/c\\04");
}

TEST_CASE("v2: the tightest of the group and its parents") {
  Root root;
  root.put("/proc/self/cgroup", "0::/slice/app/leaf\n")
      .group("/sys/fs/cgroup/slice/app/leaf", "memory.max", "max\n")
      .group("/sys/fs/cgroup/slice/app", "memory.max", "2147483648\n")
      .group("/sys/fs/cgroup/slice", "memory.max", "1073741824\n");
  CHECK(root.cgroup() == 1073741824);
  root.group("/sys/fs/cgroup/slice/app/leaf", "memory.max", "536870912\n");
  CHECK(root.cgroup() == 536870912);
  root.put("/sys/fs/cgroup/slice/app/memory.high", "268435456\n");
  CHECK(root.cgroup() == 268435456);
}

TEST_CASE("v2: the leaf lacks the controller, the parent has it") {
  Root root;
  root.put("/proc/self/cgroup", "0::/a/b\n")
      .put("/sys/fs/cgroup/a/b/cgroup.procs", "")
      .group("/sys/fs/cgroup/a", "memory.max", "4096\n");
  CHECK(root.cgroup() == 4096);
}

TEST_CASE("v1: parents as well, and its own word for no limit") {
  Root root;
  root.put("/proc/self/cgroup", "4:memory:/jobs/7\n0::/\n")
      .group("/sys/fs/cgroup/memory/jobs/7", "memory.limit_in_bytes",
             "9223372036854771712\n")
      .group("/sys/fs/cgroup/memory/jobs", "memory.limit_in_bytes",
             "314572800\n");
  CHECK(root.cgroup() == 314572800);
}

TEST_CASE("a field of /proc/meminfo or memory.stat") {
  uint64_t n = 7;
  const char* text =
      "MemFree:  12 kB\nMemAvailable:    345 kB\nactive_file 9\n";
  CHECK(limits::parse_field(text, "MemAvailable", n));
  CHECK(n == 345);
  CHECK(limits::parse_field(text, "active_file", n));
  CHECK(n == 9);
  CHECK_FALSE(limits::parse_field(text, "inactive_file", n));
  CHECK_FALSE(limits::parse_field("a: x\n", "a", n));
  CHECK(n == 9);
}

TEST_CASE("of what is available some is to be left") {
  constexpr int64_t kMiB = 1 << 20;
  CHECK(limits::slack_of(100 << 20, 50 << 20) == 34 * kMiB);
  CHECK(limits::slack_of(100 << 20, 0) == -16 * kMiB);
  CHECK(limits::slack_of(uint64_t{1} << 30, 100 << 20) == 36 * kMiB);
  CHECK(limits::slack_of(uint64_t{1} << 40, uint64_t{3} << 30) == 2048 * kMiB);
  CHECK(limits::slack_of(100 << 20, uint64_t{1} << 60) == 84 * kMiB);
}

TEST_CASE("slack: RAM, and groups with their caches") {
  constexpr int64_t kMiB = 1 << 20;
  Root none;
  CHECK(limits::read_memory(none.path()).slack == INT64_MAX);
  Root root;
  root.put("/proc/meminfo", "MemTotal: 9 kB\nMemAvailable:   524288 kB\n");
  const limits::Memory ram = limits::read_memory(root.path());
  CHECK(ram.slack == limits::slack_of(ram.ram, 512 << 20));
  root.put("/proc/meminfo", "MemAvailable: 99999999999 kB\n")
      .put("/proc/self/cgroup", "0::/a\n")
      .group("/sys/fs/cgroup/a", "memory.max", "104857600\n")
      .put("/sys/fs/cgroup/a/memory.current", "94371840\n");
  CHECK(limits::read_memory(root.path()).slack == -6 * kMiB);
  root.put("/sys/fs/cgroup/a/memory.stat",
           "anon 5\ninactive_file 10485760\nactive_file 20971520\n");
  CHECK(limits::read_memory(root.path()).slack == 14 * kMiB);
  Root v1;
  v1.put("/proc/self/cgroup", "4:memory:/j\n")
      .group("/sys/fs/cgroup/memory/j", "memory.limit_in_bytes", "104857600\n")
      .put("/sys/fs/cgroup/memory/j/memory.usage_in_bytes", "94371840\n")
      .put("/sys/fs/cgroup/memory/j/memory.stat",
           "inactive_file 1\ntotal_inactive_file 10485760\n");
  CHECK(limits::read_memory(v1.path()).slack == 4 * kMiB);
}

TEST_CASE("a container that sees the host's path") {
  // The path in /proc/self/cgroup is the host's; what is mounted is its end.
  Root v2;
  v2.put("/proc/self/cgroup", "0::/docker/x\n")
      .put("/proc/self/mountinfo",
           "30 1 0:1 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup rw\n")
      .group("/sys/fs/cgroup", "memory.max", "104857600\n");
  CHECK(v2.cgroup() == 104857600);
  Root v1;
  v1.put("/proc/self/cgroup", "4:memory:/docker/x/y\n")
      .put("/proc/self/mountinfo",
           "30 1 0:1 /docker/x /sys/fs/cgroup/memory ro - cgroup cg memory\n")
      .group("/sys/fs/cgroup/memory/y", "memory.limit_in_bytes", "max")
      .group("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "209715200\n");
  CHECK(v1.cgroup() == 209715200);
}

TEST_CASE("mounted somewhere else, with a space in its name") {
  Root root;
  root.put("/proc/self/cgroup", "0::/g\n")
      .put("/proc/self/mountinfo",
           "30 1 0:1 / /run/my\\040cg rw - cgroup2 none rw\n")
      .group("/run/my cg/g", "memory.max", "52428800\n");
  CHECK(root.cgroup() == 52428800);
}

TEST_CASE("another cgroup namespace: the mount point's limit") {
  Root root;
  root.put("/proc/self/cgroup", "0::/../../elsewhere\n")
      .group("/sys/fs/cgroup", "memory.max", "8388608\n");
  CHECK(root.cgroup() == 8388608);
}

TEST_CASE("nothing there, or nothing sensible") {
  Root empty;
  CHECK(empty.cgroup() == kUnlimited);
  Root odd;
  odd.put("/proc/self/cgroup", "0::" + string(20000, '/') + "\n")
      .put("/proc/self/mountinfo", string(300000, 'x'))
      .group("/sys/fs/cgroup", "memory.max", "garbage");
  CHECK(odd.cgroup() == kUnlimited);
}

TEST_CASE("a very deep group") {
  string path;
  Root root;
  for (int i = 0; i < 30; ++i) path += "/d" + std::to_string(i);
  root.put("/proc/self/cgroup", "0::" + path + "\n")
      .put("/sys/fs/cgroup" + path + "/cgroup.procs", "")
      .group("/sys/fs/cgroup/d0", "memory.max", "77\n");
  CHECK(root.cgroup() == 77);
}

TEST_CASE("this machine: memory exists, and the limit is not below 1 MiB") {
  const limits::Memory memory = limits::read_memory();
  CHECK(memory.ram > (64 << 20));
  CHECK(memory.ram < (uint64_t{1} << 50));
  CHECK(memory.usable() > (1 << 20));
  CHECK(memory.usable() <= memory.ram);
}

TEST_CASE("random bytes never do harm") {
  std::mt19937 random(3);
  const string alphabet = "0123456789:/,.-\\ \nmemorycgroup2max[]\xff";
  for (int i = 0; i < 20000; ++i) {
    string s;
    for (unsigned n = random() % 120; n > 0; --n) {
      s += alphabet[random() % alphabet.size()];
    }
    // An allocation of exactly this size lets the sanitizer see an overrun.
    const std::vector<char> exact(s.begin(), s.end());
    const std::string_view view(exact.data(), exact.size());
    (void)limits::parse_limit(view);
    (void)limits::chosen_word(view);
    const auto member = limits::parse_membership(view);
    CHECK((member.v2.empty() || member.v2[0] == '/'));
    const auto mounts = limits::parse_mounts(view);
    racache::TextBuffer<64> out;
    const size_t end = limits::group_directory(mounts.v2, view, out);
    CHECK(end <= out.size());
  }
}
