// SPDX-License-Identifier: MIT
// Parsers of option values. Each takes a whole value, accepts it or leaves its
// output alone, and believes nothing of the bytes.
#pragma once

#include <string_view>

#include "core/base.h"
#include "core/text.h"

namespace racache::options {

inline constexpr uint64_t kMinCache = 8 << 20;
inline constexpr uint64_t kMaxCache = uint64_t{16} << 40;  // what FolioId names

// "1073741824", "64K", "512M", "2G" (also k, m, g). False on overflow.
[[nodiscard]] bool parse_bytes(std::string_view value, uint64_t& out);
// The shortest text that parse_bytes reads back as the same number.
void print_bytes(uint64_t bytes, Text& out);

// Bytes or "25%" (1 to 90) of `memory`, which must come to kMinCache at least.
// A percentage is rounded down to whole blocks and up to kMinCache.
[[nodiscard]] bool parse_cache_size(std::string_view value, uint64_t memory,
                                    uint64_t& out);

[[nodiscard]] bool parse_switch(std::string_view value, bool& out);

// A decimal number from low to high.
[[nodiscard]] bool parse_range(std::string_view value, uint64_t low,
                               uint64_t high, uint64_t& out);

}  // namespace racache::options
