// SPDX-License-Identifier: MIT
// How much memory the caches of a row take, and how much there is.
#pragma once

#include "cli/bench/rows.h"

namespace racache::cli::bench {

// RACACHE_SIZE for a file: room for it, for what is read ahead of need, and for
// being wrong.
[[nodiscard]] uint64_t cache_bytes(uint64_t file_size);

// What to tell the user where the row's processes, whose caches are populated
// as a whole, need more than there is; empty: they do not. `size`: --size.
[[nodiscard]] std::string lack_of_memory(const Row& row, uint64_t size);

}  // namespace racache::cli::bench
