// SPDX-License-Identifier: MIT
// Strict on purpose: no signs, no spaces, no fractions. A value that is almost
// right is reported rather than guessed at.
#include "core/option_parse.h"

namespace racache::options {
namespace {

struct Unit {
  char upper, lower;
  unsigned shift;
};
constexpr Unit kUnits[] = {{'G', 'g', 30}, {'M', 'm', 20}, {'K', 'k', 10}};

// 0: not a unit, so the value is in bytes.
unsigned unit_shift(char c) {
  for (const Unit& unit : kUnits) {
    if (c == unit.upper || c == unit.lower) return unit.shift;
  }
  return 0;
}

bool parse_percent(std::string_view value, uint64_t memory, uint64_t& out) {
  value.remove_suffix(1);
  uint64_t percent;
  if (!parse_range(value, 1, 90, percent)) return false;
  // Divided first: memory may be any 64-bit number.
  uint64_t bytes = memory / 100 * percent + memory % 100 * percent / 100;
  bytes = round_down(bytes, kBlockSize);
  if (bytes < kMinCache) bytes = kMinCache;
  out = bytes > kMaxCache ? kMaxCache : bytes;
  return true;
}

}  // namespace

bool parse_range(std::string_view value, uint64_t low, uint64_t high,
                 uint64_t& out) {
  uint64_t n;
  if (!parse_decimal(value, n)) return false;
  if (n < low || n > high) return false;
  out = n;
  return true;
}

bool parse_bytes(std::string_view value, uint64_t& out) {
  if (value.empty()) return false;
  const unsigned shift = unit_shift(value.back());
  if (shift != 0) value.remove_suffix(1);
  uint64_t n;
  // The range excludes what the shift would push out at the top.
  if (!parse_range(value, 0, ~uint64_t{0} >> shift, n)) return false;
  out = n << shift;
  return true;
}

void print_bytes(uint64_t bytes, Text& out) {
  for (const Unit& unit : kUnits) {
    const uint64_t one = uint64_t{1} << unit.shift;
    if (bytes != 0 && bytes % one == 0) {
      out << bytes / one << unit.upper;
      return;
    }
  }
  out << bytes;
}

bool parse_cache_size(std::string_view value, uint64_t memory, uint64_t& out) {
  if (!value.empty() && value.back() == '%') {
    return parse_percent(value, memory, out);
  }
  uint64_t bytes;
  if (!parse_bytes(value, bytes)) return false;
  if (bytes < kMinCache || bytes > kMaxCache) return false;
  out = bytes;
  return true;
}

bool parse_switch(std::string_view value, bool& out) {
  const bool yes = value == "on" || value == "1";
  if (!yes && value != "off" && value != "0") return false;
  out = yes;
  return true;
}

}  // namespace racache::options
