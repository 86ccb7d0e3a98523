// SPDX-License-Identifier: MIT
// Every message and statistic goes through Text, in places where snprintf may
// not be called. A wrong digit, a write past the buffer or a broken JSON
// escape here would be wrong, or harmful, everywhere.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "core/text.h"

#include <doctest/doctest.h>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

using racache::Text;
using racache::TextBuffer;
using racache::utf8_length;

namespace {

template <class F>
std::string made(F&& f) {
  TextBuffer<4096> t;
  f(t);
  CHECK(strlen(t.c_str()) == t.size());
  CHECK_FALSE(t.truncated());
  return t.c_str();
}
std::string fixed(double v, unsigned d) {
  return made([&](Text& t) { t.fixed(v, d); });
}
std::string human(uint64_t n) {
  return made([&](Text& t) { t.human_bytes(n); });
}
std::string printable(const char* s, size_t max) {
  return made([&](Text& t) { t.printable(s, max); });
}
std::string json(const std::string& s) {
  TextBuffer<65536> t;
  t.json_string(s.c_str());
  REQUIRE_FALSE(t.truncated());
  return t.c_str();
}

}  // namespace

TEST_CASE("numbers print as they are, at their extremes too") {
  CHECK(made([](Text& t) { t << 0 << ' ' << -7 << ' ' << 42u; }) == "0 -7 42");
  CHECK(made([](Text& t) { t << std::numeric_limits<uint64_t>::max(); }) ==
        "18446744073709551615");
  CHECK(made([](Text& t) { t << std::numeric_limits<int64_t>::min(); }) ==
        "-9223372036854775808");
  CHECK(made([](Text& t) { t << std::numeric_limits<int>::min(); }) ==
        "-2147483648");
}

TEST_CASE("fixed rounds, carries and survives what is not a number") {
  CHECK(fixed(0, 2) == "0.00");
  CHECK(fixed(1.005, 1) == "1.0");
  CHECK(fixed(9.96, 1) == "10.0");
  CHECK(fixed(0.999999, 2) == "1.00");
  CHECK(fixed(-1.25, 1) == "-1.3");
  CHECK(fixed(12345.678, 0) == "12346");
  CHECK(fixed(0.000001, 6) == "0.000001");
  CHECK(fixed(std::nan(""), 1) == "0.0");
  CHECK(fixed(INFINITY, 1) == "1000000000000000.0");
  CHECK(fixed(-INFINITY, 0) == "-1000000000000000");
  CHECK(fixed(1e300, 9) == "1000000000000000.000000000");
  CHECK(fixed(0.5, 40) == "0.500000000");
}

TEST_CASE("fixed agrees with printf away from ties") {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> some(-1e6, 1e6);
  for (int i = 0; i < 20000; ++i) {
    const double v = some(random);
    char expected[64];
    snprintf(expected, sizeof expected, "%.3f", v);
    // The two may differ by one in the last place on a tie.
    CHECK(std::abs(std::stod(fixed(v, 3)) - std::stod(expected)) < 0.0011);
  }
}

TEST_CASE("human_bytes picks the unit and never prints 1024 of one") {
  CHECK(human(0) == "0 B");
  CHECK(human(12) == "12 B");
  CHECK(human(1023) == "1023 B");
  CHECK(human(1024) == "1 KiB");
  CHECK(human(640 << 10) == "640 KiB");
  CHECK(human(3ull << 29) == "1.5 GiB");
  CHECK(human((1ull << 20) - 1) == "1 MiB");
  CHECK(human((1ull << 20) - 52) == "1023 KiB");  // 1023.949
  CHECK(human(1536) == "1.5 KiB");
  CHECK(human(150 * 1024 + 512) == "150 KiB");
  CHECK(human(~0ull) == "16 EiB");
}

TEST_CASE("a full buffer cuts, stays terminated, and says so") {
  char memory[16];
  memset(memory, 'x', sizeof memory);
  Text t(memory, 8);
  t << "1234567";
  CHECK_FALSE(t.truncated());
  t << "89";
  CHECK(t.truncated());
  CHECK(std::string(t.c_str()) == "1234567");
  CHECK(t.size() == 7);
  CHECK(t.wanted() == 9);
  CHECK(memory[8] == 'x');
}

TEST_CASE("after a cut nothing is added behind the gap") {
  char memory[8];
  Text t(memory, 5);
  t << "abc"
    << "defgh"
    << "i";
  CHECK(std::string(t.c_str()) == "abcd");
  CHECK(t.wanted() == 9);
}

TEST_CASE("no room at all") {
  char guard = 'x';
  Text none(&guard, 0);
  none << "abc" << 5;
  none.json_string("x").pad_to(10).human_bytes(5);
  CHECK(guard == 'x');
  CHECK(none.size() == 0);
  Text null(nullptr, 0);
  null << "abc";
  CHECK(null.wanted() == 3);
  Text one(&guard, 1);
  one << 'a';
  CHECK(guard == 0);
}

TEST_CASE("pad_to counts from the last line's beginning and stops when full") {
  CHECK(made([](Text& t) { (t << "long line\nab").pad_to(5) << '|'; }) ==
        "long line\nab   |");
  CHECK(made([](Text& t) { (t << "abcdef").pad_to(3) << '|'; }) == "abcdef|");
  TextBuffer<8> small;
  small.pad_to(1000000);
  CHECK(small.size() == 7);
}

TEST_CASE("printable hides what could play tricks, and abbreviates") {
  CHECK(printable("plain", 40) == "plain");
  CHECK(printable("a\nb\tc\x1b[31m\x7f", 40) == "a?b?c?[31m?");
  CHECK(printable("%s%n%1000000d", 40) == "%s%n%1000000d");
  CHECK(printable("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", 40) ==
        "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
  CHECK(printable("\xff\xfe\xc3", 40) == "???");
  CHECK(printable("\xc2\x9b"
                  "31m",
                  40) == "?31m");  // C1 control
  CHECK(printable("a\xe2\x80\xae"
                  "cod.exe",
                  40) == "a?cod.exe");  // turns text
  for (const char* unseen :
       {"\xd8\x9c", "\xe2\x80\x8e", "\xe2\x80\x8f", "\xe2\x80\xa8",
        "\xe2\x81\xa6", "\xe2\x81\xa9", "\xef\xbb\xbf"}) {
    CHECK(printable(unseen, 40) == "?");
  }
  CHECK(printable(std::string(10240, 'a').c_str(), 10) == "aaaaaaa...");
  CHECK(printable("1234567890", 10) == "1234567890");
  // Not cut in the middle of a character.
  CHECK(printable("123456\xe2\x82\xac"
                  "89012345",
                  10) == "123456...");
  CHECK(printable(nullptr, 40) == "(null)");
}

TEST_CASE("errors by name") {
  CHECK(made([](Text& t) { t.error(EACCES); }) == "EACCES");
  CHECK(made([](Text& t) { t.error(9999); }) == "errno 9999");
}

TEST_CASE("utf8_length knows every ill-formed shape") {
  CHECK(utf8_length("", 0) == 0);
  CHECK(utf8_length("a", 1) == 1);
  CHECK(utf8_length("\xc3\xa9", 2) == 2);
  CHECK(utf8_length("\xc3\xa9", 1) == 0);          // cut
  CHECK(utf8_length("\x80", 1) == 0);              // lone continuation
  CHECK(utf8_length("\xc0\xaf", 2) == 0);          // overlong
  CHECK(utf8_length("\xe0\x80\xaf", 3) == 0);      // overlong
  CHECK(utf8_length("\xed\xa0\x80", 3) == 0);      // surrogate
  CHECK(utf8_length("\xf4\x90\x80\x80", 4) == 0);  // over U+10FFFF
  CHECK(utf8_length("\xf4\x8f\xbf\xbf", 4) == 4);
  CHECK(utf8_length("\xe2\x82\x28", 3) == 0);
  CHECK(utf8_length("\xf5\x80\x80\x80", 4) == 0);
}

TEST_CASE("JSON strings come back the same from a JSON parser") {
  for (std::string s : {std::string("plain"), std::string("q\"b\\s/"),
                        std::string("\n\t\r\x01\x1f\x7f"),
                        std::string("caf\xc3\xa9 \xf0\x9f\x98\x80")}) {
    CHECK(nlohmann::json::parse(json(s)).get<std::string>() == s);
  }
  CHECK(json("\xff"
             "a\xc3") == "\"?a?\"");
}

TEST_CASE("any bytes make a valid JSON string") {
  std::mt19937 random(2);
  for (int i = 0; i < 5000; ++i) {
    std::string s;
    for (unsigned n = random() % 60; n > 0; --n) {
      s += static_cast<char>(1 + random() % 255);
    }
    CHECK(nlohmann::json::accept(json(s)));
  }
}

TEST_CASE("a quoted string in pieces is escaped as a whole") {
  CHECK(made([](Text& t) {
          t.open_quote() << "a\"" << 5 << '\\';
          t.close_quote() << '"';
        }) == "\"a\\\"5\\\\\"\"");
}

TEST_CASE("parse_decimal takes digits and nothing else") {
  uint64_t n = 7;
  CHECK(racache::parse_decimal("18446744073709551615", n));
  CHECK(n == ~uint64_t{0});
  n = 7;
  for (const char* bad : {"", "-1", "+1", " 1", "1 ", "0x10", "1e3",
                          "18446744073709551616", "99999999999999999999999"}) {
    CHECK_FALSE(racache::parse_decimal(bad, n));
  }
  CHECK(n == 7);
}
