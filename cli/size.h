// SPDX-License-Identifier: MIT
// Sizes as users write them.
#pragma once

#include <cstdint>
#include <string>

namespace racache::cli {

// "64M": bytes, with K, M or G, from `least` to 1 TiB. Throws
// CLI::ValidationError for --size.
[[nodiscard]] uint64_t parse_size(const std::string& text, uint64_t least);

// Bytes as "64M" where they are whole MiB.
[[nodiscard]] std::string size_text(uint64_t bytes);

}  // namespace racache::cli
