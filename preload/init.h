// SPDX-License-Identifier: MIT
// When the interposer is at work.
//
//   cold   before our constructor: hooks pass through, by raw system calls
//   ready  descriptors are tracked, files are adopted
//   off    RACACHE=off, a program not wanted, or numbers that threads no longer
//          share: hooks pass through
#pragma once

#include <atomic>

#include "core/base.h"

namespace racache::preload {

enum class State : uint32_t { kCold, kReady, kOff };

#pragma GCC visibility push(hidden)
extern std::atomic<State> state_word;
#pragma GCC visibility pop

// Acquire: who sees `ready` sees the configuration.
inline State state() { return state_word.load(std::memory_order_acquire); }
void turn_off();

}  // namespace racache::preload
