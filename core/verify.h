// SPDX-License-Identifier: MIT
// RACACHE_VERIFY=N: every Nth cached read is compared with the kernel's.
#pragma once

#include "core/cache.h"

namespace racache::verify {

// Reads the same bytes by the kernel's call on `fd` and compares. Where they
// differ while the lease was held throughout, it is counted and logged, the
// file becomes the kernel's, and the kernel's bytes are what the caller gets.
[[nodiscard]] cache::ReadResult check(File& file, const iovec* iov,
                                      int iov_count, uint64_t offset, int fd,
                                      cache::ReadResult result);

}  // namespace racache::verify
