// SPDX-License-Identifier: MIT
// What a miss, a mark or a hint makes the engine read: room is made, the
// readahead policy is asked, and what it plans becomes a batch of device reads
// (core/fill_batch.h).
#pragma once

#include "core/cache.h"
#include "core/file.h"

namespace racache::fill {

// All of these are called with signals blocked, no lock held and outside any
// epoch section. `fd` is a hint for cachestat(2), -1 for none.

// Page `page` is absent; `request` pages are left of the read.
void on_miss(File& file, OpenStream& stream, PageIndex page, uint64_t request,
             int fd);
// The mark of the folio [first, 2^order) was met and cleared.
void on_mark(File& file, OpenStream& stream, PageIndex first, unsigned order,
             uint64_t request, int fd);
// Forced: reads [page, end) as far as memory and ops allow without waiting.
// Returns the first page that was not taken on.
PageIndex force(File& file, PageIndex page, PageIndex end, int fd);

}  // namespace racache::fill
