// SPDX-License-Identifier: MIT
// A backend without a device, for tests: what a read brings, how long it takes
// and in which order reads complete is scripted. Time is counted in steps.
//
// Not part of libracache.so; a library of its own, and free to allocate.
#pragma once

#include "core/backend.h"

namespace racache {

enum class FakeOrder : uint8_t { kFifo, kLifo, kRandom };

struct FakeFate {
  unsigned latency;  // steps until done; 0 counts as 1
  long error;        // negative errno; 0: the read succeeds
  uint64_t bytes;    // at most so many are read
};

struct FakeOptions {
  FakeOrder order = FakeOrder::kFifo;  // among reads due at the same step
  uint64_t seed = 1;
  unsigned capacity = 1024;  // reads in flight; submit() takes no more
  unsigned latency = 1;
  // The wait() of a thread steps by itself; otherwise only fake_step() or the
  // helper thread moves time.
  bool step_in_wait = true;
  // The byte at `offset` of the file attached as `fd`; null: pattern_byte.
  uint8_t (*content)(int fd, uint64_t offset) = nullptr;
  bool no_content = false;  // memory is left as it was: for simulations
  uint64_t file_size = ~uint64_t{0};  // reads stop here
  // Changes the fate of one read; called in submission order.
  void (*script)(void* user, const ReadOp& op, FakeFate& fate) = nullptr;
  void* script_user = nullptr;
};

[[nodiscard]] Backend* make_fake(const FakeOptions& options);

// One step of time: runs done() of what is due. Returns how many.
unsigned fake_step(Backend& backend);
// Reads whose done() has not returned.
[[nodiscard]] unsigned fake_in_flight(Backend& backend);
[[nodiscard]] uint64_t fake_submitted(Backend& backend);  // reads ever taken
// A thread that steps every `period_us`; stopped by destroy().
void fake_start_helper(Backend& backend, unsigned period_us);
// As if the ring had been closed: submit() takes nothing from now on.
void fake_lose(Backend& backend);

[[nodiscard]] uint8_t pattern_byte(int fd, uint64_t offset);

}  // namespace racache
