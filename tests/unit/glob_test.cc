// SPDX-License-Identifier: MIT
// RACACHE_INCLUDE, RACACHE_EXCLUDE and RACACHE_PROGRAMS decide what is cached
// at all, so a glob must mean what its writer meant. Patterns and paths may be
// hostile: no pair of them may take more than the product of their lengths.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "core/glob.h"

#include <doctest/doctest.h>
#include <chrono>
#include <string>

#include "core/config.h"

using namespace racache;
using std::string;

TEST_CASE("globs") {
  CHECK(glob_match("", ""));
  CHECK_FALSE(glob_match("", "a"));
  CHECK(glob_match("*", ""));
  CHECK(glob_match("a*c", "abbbc"));
  CHECK(glob_match("a*c", "ac"));
  CHECK_FALSE(glob_match("a*c", "acd"));
  CHECK(glob_match("*a*b*", "xxaybzz"));
  CHECK(glob_match("a?c", "abc"));
  CHECK_FALSE(glob_match("a?c", "a/c"));
  CHECK(glob_match("a?c",
                   "a\xc3\xa9"
                   "c"));
  CHECK(glob_match("/d/*.sst", "/d/e/f.sst"));
  CHECK(glob_match("[a-c]x[!0-9]", "bxy"));
  CHECK_FALSE(glob_match("[a-c]x[!0-9]", "bx5"));
  CHECK_FALSE(glob_match("[^/]x", "/x"));
  CHECK(glob_match("[]]", "]"));
  CHECK(glob_match("[a-]", "-"));
  CHECK(glob_match("[", "["));
  CHECK(glob_match("[ab", "[ab"));
  CHECK(glob_match("[!", "[!"));
  CHECK(glob_match("\\*", "*"));
  CHECK_FALSE(glob_match("\\*", "a"));
  CHECK(glob_match("a\\", "a\\"));
  CHECK(glob_match("[\\]]", "]"));
}

TEST_CASE("path globs mean a directory's content too") {
  CHECK(glob_match_path("/tmp", "/tmp"));
  CHECK(glob_match_path("/tmp", "/tmp/a/b"));
  CHECK_FALSE(glob_match_path("/tmp", "/tmpfile"));
  CHECK(glob_match_path("/tmp/", "/tmp/a"));
  CHECK(glob_match_path("/", "/any/thing"));
  CHECK(glob_match_path("/data/*.db", "/data/x/y.db"));
  CHECK(glob_match_path("*.log", "/var/log/a.log"));
  CHECK(glob_match_path("cache", "/home/x/cache/y"));
  CHECK_FALSE(glob_match_path("cache", "/home/x/cached/y"));
  CHECK_FALSE(glob_match_path("*.log", "/var/log/a.logs"));
}

TEST_CASE("no pattern takes exponential time") {
  string pattern;
  for (int i = 0; i < 2000; ++i) pattern += "a*";
  pattern += "b";
  const string text(20000, 'a');
  const auto begin = std::chrono::steady_clock::now();
  CHECK_FALSE(glob_match(pattern, text));
  CHECK_FALSE(glob_match("*?*?*?*?*?*?*?*?[a]*[b]*/b", text));
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - begin;
  CHECK(took.count() < 5);
}

TEST_CASE("RACACHE_INCLUDE and RACACHE_EXCLUDE") {
  Config c;
  CHECK(judge_path(c, "/a") == PathVerdict::kWanted);
  c.exclude = "/a::*.log";
  CHECK(judge_path(c, "/a/b") == PathVerdict::kExcluded);
  CHECK(judge_path(c, "/c/d.log") == PathVerdict::kExcluded);
  CHECK(judge_path(c, "/c/d") == PathVerdict::kWanted);
  c.include = ":/c:/with\\:colon";
  CHECK(judge_path(c, "/c/d") == PathVerdict::kNamed);
  CHECK(judge_path(c, "/c/d.log") == PathVerdict::kExcluded);
  CHECK(judge_path(c, "/e") == PathVerdict::kExcluded);
  CHECK(judge_path(c, "/with:colon/x") == PathVerdict::kNamed);
}

TEST_CASE("RACACHE_PROGRAMS") {
  Config c;
  CHECK(program_wanted(c, "fio"));
  c.programs = "fio:db_*";
  CHECK(program_wanted(c, "fio"));
  CHECK(program_wanted(c, "db_bench"));
  CHECK_FALSE(program_wanted(c, "fio2"));
  c.programs = "!bash:!sh";
  CHECK(program_wanted(c, "fio"));
  CHECK_FALSE(program_wanted(c, "sh"));
  c.programs = "db_*:!db_old";
  CHECK(program_wanted(c, "db_bench"));
  CHECK_FALSE(program_wanted(c, "db_old"));
  CHECK_FALSE(program_wanted(c, "fio"));
  c.programs = "!";
  CHECK(program_wanted(c, "fio"));
}
