// SPDX-License-Identifier: MIT
// The option table: what each RACACHE_* variable is called, accepts and means,
// how it is parsed and printed. Everything else about options derives from it.
#pragma once

#include "core/config.h"

namespace racache::options {

struct Handler {
  // False: not understood, and `config` untouched.
  bool (*parse)(Config& config, const char* value);
  void (*print)(const Config& config, Text& out);
};

// Two arrays of one table: rows[i] is what handlers[i] handles.
inline constexpr size_t kRows = 21;
extern const OptionRow rows[kRows];
extern const Handler handlers[kRows];

// RACACHE_SIZE, which has been checked, on this machine; warns when it is more
// than there is.
[[nodiscard]] uint64_t cache_size(const char* value);

}  // namespace racache::options
