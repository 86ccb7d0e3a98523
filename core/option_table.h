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

// What a variable may say, and what it means then.
template <class T>
struct Word {
  const char* text;
  T value;
};
inline constexpr Word<EvictKind> kEvictWords[] = {
    {"s3fifo", EvictKind::kS3Fifo},
    {"lru", EvictKind::kLru},
    {"fifo", EvictKind::kFifo},
    {"clock", EvictKind::kClock}};

// RACACHE_SIZE, which has been checked, on this machine; warns when it is more
// than there is.
[[nodiscard]] uint64_t cache_size(const char* value);

}  // namespace racache::options
