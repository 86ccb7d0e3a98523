// SPDX-License-Identifier: MIT
#include "cli/size.h"

#include <CLI/CLI.hpp>
#include <charconv>

namespace racache::cli {
namespace {

constexpr uint64_t kMost = uint64_t{1} << 40;
constexpr uint64_t kMib = 1 << 20;

}  // namespace

uint64_t parse_size(const std::string& text, uint64_t least) {
  uint64_t n = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, n);
  const std::string unit(rest, end);
  const unsigned shift = unit == "K"   ? 10
                         : unit == "M" ? 20
                         : unit == "G" ? 30
                                       : 0;
  const bool known = shift != 0 || unit.empty();
  if (!known || error != std::errc() || n > kMost >> shift ||
      n << shift < least) {
    throw CLI::ValidationError(
        "--size",
        text + ": a size is " + size_text(least) + " to 1024G, with K, M or G");
  }
  return n << shift;
}

std::string size_text(uint64_t bytes) {
  if (bytes % kMib != 0) return std::to_string(bytes);
  return std::to_string(bytes / kMib) + "M";
}

}  // namespace racache::cli
