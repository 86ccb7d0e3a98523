// SPDX-License-Identifier: MIT
// A simulation is believed as far as its trace is read rightly. So the format,
// its errors and the converter from strace's output are tried on lines whose
// meaning is known.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "cli/sim_trace.h"

#include <doctest/doctest.h>

#include <sstream>
#include <stdexcept>

using namespace racache::cli;

namespace {

Trace parse(const std::string& text) {
  std::istringstream in(text);
  return parse_trace(in);
}

std::string convert(const std::string& text) {
  std::istringstream in(text);
  std::ostringstream out;
  convert_strace(in, out);
  return out.str();
}

}  // namespace

TEST_CASE("lines, comments, hints, files and their descriptions") {
  const Trace t = parse(
      "# a comment\n\n0 a#1 0 40960 open\n0.5 a#1 4096 8192\n"
      "1 a#2 0 100 read\r\n2 b 0 0 random\n");
  REQUIRE(t.events.size() == 4);
  CHECK(t.files.size() == 2);
  CHECK(t.descriptions == 3);
  CHECK(t.files[0].size == 40960);
  CHECK(t.events[1].time == doctest::Approx(0.5));
  CHECK(t.events[1].offset == 4096);
  CHECK(t.events[3].hint == Hint::kRandom);
  CHECK(t.read_bytes == 8292);
  CHECK(t.touched_bytes == 3 * 4096);
}

TEST_CASE("what is wrong is named by its line") {
  for (const char* bad :
       {"0 a 1", "x a 0 1", "0 a -1 1", "0 a 0 1k", "0 a 0 1 often",
        "0 a 0 1 read more", "0 a 0 99999999999999999999",
        "0 a 17592186044416 4096", "0 a 17592186036224 4096",
        "0 a 4096 17592186032129 willneed", "0 a 0 2147479553"}) {
    INFO(bad);
    CHECK_THROWS_WITH_AS(parse("0 a 0 1\n" + std::string(bad)),
                         doctest::Contains("line 2"), std::runtime_error);
  }
}

TEST_CASE("offsets and lengths as large as they may be") {
  const Trace t = parse(
      "0 a 0 2147479552\n0 a 17592186032127 4096\n"
      "0 b 0 4096\n0 b 0 17592186036223 willneed\n");
  CHECK(t.touched_bytes == uint64_t{0x7ffff000} + 8192 + 4096);
  CHECK(t.files[0].size == 17592186036223);
  CHECK(t.files[1].size == 4096);  // no hint makes a file larger
}

TEST_CASE("pages that several reads share are counted once") {
  const Trace t = parse(
      "0 a 8192 4096\n0 a 0 1\n0 a 4095 2\n0 a 0 4096\n0 a 40960 1\n"
      "0 b 0 1\n0 b 20480 0\n");
  CHECK(t.touched_bytes == 5 * 4096);
}

TEST_CASE("strace: positions, descriptors, threads and split calls") {
  const std::string got = convert(
      "10 100.5 openat(AT_FDCWD, \"/d/a b\", O_RDONLY|O_CLOEXEC) = 3\n"
      "10 101.5 read(3, \"x\\\"y, z\"..., 4096) = 4096\n"
      "10 101.6 read(3, \"\", 100) = 100\n"
      "10 102.0 lseek(3, 8192, SEEK_SET) = 8192\n"
      "10 102.0 clone(child_stack=0x1, flags=CLONE_VM|CLONE_FILES) = 11\n"
      "11 102.1 read(3,  <unfinished ...>\n"
      "10 102.2 pread64(3, \"..\", 10, 77) = 10\n"
      "11 102.3 <... read resumed>\"abc\", 3) = 3\n"
      "10 103.0 dup(3) = 5\n10 103.0 close(3) = 0\n"
      "10 103.0 fadvise64(5, 0, 0, POSIX_FADV_WILLNEED) = 0\n"
      "10 104.0 read(3, \"no\", 2) = 2\n"
      "10 104.0 openat(AT_FDCWD, \"/none\", O_RDONLY) = -1 ENOENT (No)\n");
  CHECK(got ==
        "1.000000 /d/a%20b#1 0 4096\n1.100000 /d/a%20b#1 4096 100\n"
        "1.700000 /d/a%20b#1 77 10\n1.800000 /d/a%20b#1 8192 3\n"
        "2.500000 /d/a%20b#1 0 0 willneed\n");
  CHECK(parse(got).events.size() == 5);
}

TEST_CASE("strace: heads of lines, and lines of any length") {
  const std::string read =
      "read(3, \"" + std::string(1 << 20, 'x') + "\", 1048576) = 1048576\n";
  const std::string got =
      convert("openat(AT_FDCWD, \"/d\", O_RDONLY) = 3\n" + read +
              "[pid  12] 7.5 openat(AT_FDCWD, \"/e\", O_RDONLY) = 3\n"
              "[pid 12] 8.0 read(3, \"\", 1) = 1\n"
              "12   8.5 read(3, \"\", 2) = 2\n9.0 read(3, \"\", 4) = 4\n");
  CHECK(got ==
        "0.000000 /d#1 0 1048576\n0.500000 /e#2 0 1\n1.000000 /e#2 1 2\n"
        "1.500000 /d#1 1048576 4\n");
}

TEST_CASE("strace: ranges of descriptors are closed") {
  const std::string open = "7 openat(AT_FDCWD, \"/d\", O_RDONLY) = ";
  const std::string got =
      convert(open + "3\n" + open + "4\n" + open + "5\n" +
              "7 clone(flags=CLONE_FILES) = 8\n"
              "7 close_range(3, 4, CLOSE_RANGE_CLOEXEC) = 0\n"
              "7 read(3, \"\", 1) = 1\n"
              "7 close_range(4, 4294967295, CLOSE_RANGE_UNSHARE) = 0\n"
              "7 read(3, \"\", 2) = 2\n7 read(5, \"\", 4) = 4\n"
              "8 read(5, \"\", 8) = 8\n8 close_range(3, 3, 0) = 0\n"
              "8 read(3, \"\", 16) = 16\n8 read(5, \"\", 32) = 32\n");
  CHECK(got ==
        "0.000000 /d#1 0 1\n0.000000 /d#1 1 2\n0.000000 /d#3 0 8\n"
        "0.000000 /d#3 8 32\n");
}

TEST_CASE("strace: what it prints is a trace, however large the numbers") {
  const std::string got = convert(
      "openat(AT_FDCWD, \"/d\", O_RDONLY) = 3\n"
      "readahead(3, 4096, 18446744073709551615) = 0\n"
      "readahead(3, 0, 17592186036224) = 0\nreadahead(3, 0, 0) = 0\n"
      "fadvise64(3, 9223372036854775807, 1, POSIX_FADV_WILLNEED) = 0\n"
      "fadvise64(3, 1, 9223372036854775807, POSIX_FADV_DONTNEED) = 0\n"
      "pread64(3, \"\", 8, 17592186036220) = 8\n"
      "pread64(3, \"\", 8, 17592186036224) = 8\n");
  CHECK(got ==
        "0.000000 /d#1 4096 0 willneed\n"
        "0.000000 /d#1 0 17592186036224 willneed\n"
        "0.000000 /d#1 1 0 dontneed\n0.000000 /d#1 17592186036220 4\n");
  CHECK(parse(got).events.size() == 4);
}

TEST_CASE("strace: devices and what the kernel makes up are left out") {
  std::string lines;
  for (const char* name : {"/dev/urandom", "/proc/self/maps", "/sys/a"}) {
    lines += "openat(AT_FDCWD, \"" + std::string(name) +
             "\", O_RDONLY) = 3\n"
             "read(3, \"\", 1) = 1\n";
  }
  lines +=
      "openat(AT_FDCWD, \"zero\", O_RDONLY) = 3</dev/zero<char 1:5>>\n"
      "read(3</dev/zero<char 1:5>>, \"\", 1) = 1\n";
  CHECK(convert(lines) == "");
  CHECK(convert("openat(AT_FDCWD, \"/dev/shm/a\", O_RDONLY) = 3\n"
                "read(3, \"\", 1) = 1\n"
                "openat(AT_FDCWD, \"/dev/stdin\", O_RDONLY) = 4</d>\n"
                "read(4</d>, \"\", 2) = 2\n") ==
        "0.000000 /dev/shm/a#1 0 1\n0.000000 /dev/stdin#2 0 2\n");
}
