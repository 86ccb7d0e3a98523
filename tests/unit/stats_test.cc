// SPDX-License-Identifier: MIT
// The statistics are how users judge the cache, and other programs parse them:
// the JSON keys are a promise, and each must hold the counter of its name.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "core/stats.h"

#include <doctest/doctest.h>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "tests/unit/stats_sample.h"

using namespace racache;
using namespace racache::test;
using nlohmann::json;

namespace {

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
                                     "waits.polled_seconds",
                                     "files.adopted",
                                     "files.lease_breaks",
                                     "files.kernel.size: small",
                                     "files.kernel.lease: EACCES (not owner)",
                                     "memory.limit",
                                     "memory.used",
                                     "memory.metadata",
                                     "memory.huge",
                                     "memory.given_back",
                                     "memory.pressed_seconds",
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
  CHECK(j["reads"]["calls"] == uint64_t{c.read_calls});
  CHECK(j["reads"]["bytes"] == uint64_t{c.read_bytes});
  CHECK(j["reads"]["hits"] == uint64_t{c.hits});
  CHECK(j["reads"]["misses"] == uint64_t{c.misses});
  CHECK(j["reads"]["hit_bytes"] == uint64_t{c.hit_bytes});
  CHECK(j["reads"]["syscalls_avoided"] == uint64_t{c.syscalls_avoided});
  CHECK(j["device"]["requests"] == uint64_t{c.device_requests});
  CHECK(j["device"]["bytes"] == uint64_t{c.device_bytes});
  CHECK(j["device"]["used_bytes"] == uint64_t{c.used_bytes});
  CHECK(j["device"]["from_page_cache_bytes"] == uint64_t{c.from_page_cache_bytes});
  CHECK(j["readahead"]["sync_windows"] == uint64_t{c.sync_windows});
  CHECK(j["readahead"]["async_windows"] == uint64_t{c.async_windows});
  CHECK(j["readahead"]["forced"] == uint64_t{c.forced});
  CHECK(j["readahead"]["standalone"] == uint64_t{c.standalone});
  CHECK(j["readahead"]["marks_hit"] == uint64_t{c.marks_hit});
  CHECK(j["readahead"]["overlap_skips"] == uint64_t{c.overlap_skips});
  CHECK(j["readahead"]["trims_avoided"] == uint64_t{c.trims_avoided});
  CHECK(j["folios"]["live"] == 700);
  CHECK(j["folios"]["by_order"][9] == 609);
  CHECK(j["folios"]["inserted_by_order"][0] == 500);
  CHECK(j["folios"]["order_fallbacks"] == uint64_t{c.order_fallbacks});
  CHECK(j["folios"]["evicted"] == uint64_t{c.evicted});
  CHECK(j["index"]["lookups"] == uint64_t{c.lookups});
  CHECK(j["waits"]["count"] == uint64_t{c.wait_count});
  CHECK(j["waits"]["seconds"] == 1.5);
  CHECK(j["waits"]["polled_seconds"] == 0.25);
  CHECK(j["files"]["adopted"] == uint64_t{c.adopted});
  CHECK(j["files"]["lease_breaks"] == uint64_t{c.lease_breaks});
  CHECK(j["files"]["kernel"]["size: small"] == 5);
  CHECK(j["memory"]["limit"] == 801);
  CHECK(j["memory"]["used"] == 802);
  CHECK(j["memory"]["metadata"] == 803);
  CHECK(j["memory"]["huge"] == 804);
  CHECK(j["memory"]["given_back"] == 805);
  CHECK(j["memory"]["pressed_seconds"] == 0.75);
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
  memset(static_cast<void*>(&s), 0xff, sizeof s);
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
  const unsigned others = static_cast<unsigned>(Reason::kCount) - 1 - 4;
  CHECK(
      has(t, ("; " + std::to_string(others) + " for other reasons\n").c_str()));
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
