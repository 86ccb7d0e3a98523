// SPDX-License-Identifier: MIT
// The backend for systems that refuse io_uring: a few threads that pread.
#pragma once

#include "core/backend.h"
#include "core/order.h"

namespace racache {

struct ThreadsOptions {
  unsigned workers = 4;
  unsigned queue = 256;  // ops taken and not yet begun
};

[[nodiscard]] Expected<Backend*> make_threads(const ThreadsOptions& options);

// Starts the workers; called once, by the service thread, whose descriptor
// table they share: descriptors given to attach() mean something there only.
// Returns how many run. With none, submit() takes nothing.
unsigned threads_start_workers(Backend& backend);

// Has each worker obey, and waits for that; false when one could not.
[[nodiscard]] bool threads_follow(Backend& backend, const Order& order);
[[nodiscard]] bool threads_has_worker(const Backend& backend, int tid);

}  // namespace racache
