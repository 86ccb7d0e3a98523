// SPDX-License-Identifier: MIT
// How much of a range of memory the kernel has put into huge pages.
#pragma once

#include "core/base.h"

namespace racache::huge_pages {

// Bytes of [start, start + bytes), page-aligned, in transparent huge pages: by
// ioctl(PAGEMAP_SCAN) (Linux 6.7) or, without it, /proc/self/smaps. 0 when
// /proc does not tell.
[[nodiscard]] uint64_t bytes_in(const void* start, size_t bytes);

namespace detail {  // each way by itself, for tests; false: it is not there
[[nodiscard]] bool by_scan(uint64_t start, uint64_t end, uint64_t& found);
[[nodiscard]] bool by_smaps(uint64_t start, uint64_t end, uint64_t& found);
}  // namespace detail

}  // namespace racache::huge_pages
