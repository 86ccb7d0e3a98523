// SPDX-License-Identifier: MIT
// A batch of device reads, built under a file's lock and submitted after it:
// folios are allocated, published in the file's index as `filling` (so whoever
// comes second waits for the first: a device range is never read twice at the
// same time), and gathered into reads of neighbours.
#pragma once

#include "core/fill_op.h"
#include "core/readahead.h"

namespace racache {

struct Batch {
  FillOp* first = nullptr;
  FillOp* last = nullptr;
  FillOp* open = nullptr;  // still growing
  bool once = false;       // its reader will not come back
  bool awaited = false;    // its reader needs some of it now
};

namespace fill_batch {

// Walks the layout, inserting. Stops for good when there is no memory. Under
// the file's lock.
void insert_all(File& file, readahead::Layout& layout, Batch& batch);
// Without it. `fd` is a hint for cachestat(2), -1 for none.
void submit(Engine& engine, Batch& batch, int fd);
// What others left to the background thread (relay.h). Signals blocked, no lock
// held.
void submit_relayed(Engine& engine);

}  // namespace fill_batch
}  // namespace racache
