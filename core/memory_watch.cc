// SPDX-License-Identifier: MIT
#include "core/memory_watch.h"

#include <cstdint>

#include "core/engine.h"
#include "core/option_parse.h"
#include "core/system_limits.h"

namespace racache {
namespace {

constexpr uint64_t kLeast = options::kMinCache;

uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

// A percentage is one of what there is now.
uint64_t configured_bytes(const Engine& engine, const limits::Memory& memory) {
  const uint64_t reserved = engine.arena.block_count() * kBlockSize;
  uint64_t bytes = engine.config.size_bytes;
  const char* size = size_option(engine.config);
  (void)options::parse_cache_size(size, memory.usable(), bytes);
  return least(bytes, reserved);
}

}  // namespace

uint64_t MemoryWatch::next_target(const State& state) {
  uint64_t target;
  if (state.slack < 0) {
    // A quarter more, so that it need not be asked for again and again.
    const uint64_t missing = ~static_cast<uint64_t>(state.slack) + 1;
    const uint64_t more = missing + missing / 4;
    target = state.held > more ? state.held - more : 0;
  } else {
    const uint64_t room = static_cast<uint64_t>(state.slack) / 2;
    target = room < ~state.held ? state.held + room : ~uint64_t{0};
    if (!state.calm) target = least(target, state.target);
  }
  const uint64_t at_least = least(kLeast, state.configured);
  if (target < at_least) target = at_least;
  return round_down(least(target, state.configured), kBlockSize);
}

int64_t MemoryWatch::foresee(int64_t slack, int64_t before, int64_t now,
                             uint64_t elapsed_ns) {
  if (now >= before || elapsed_ns == 0 || slack == INT64_MAX) return slack;
  const double taken = static_cast<double>(before) - static_cast<double>(now);
  const double periods = static_cast<double>(elapsed_ns) / kPeriod.tv_nsec;
  const double left = static_cast<double>(slack) - 2 * taken / periods;
  // So far beyond any memory that the rest is of no interest.
  constexpr double kMost = 1e18;
  return left < -kMost ? -static_cast<int64_t>(kMost)
                       : static_cast<int64_t>(left);
}

int64_t MemoryWatch::slack_ahead(int64_t slack, uint64_t held,
                                 uint64_t now_ns) {
  int64_t room;
  if (__builtin_add_overflow(slack, held, &room)) room = INT64_MAX;
  const int64_t before = last_look_ns_ == 0 ? room : last_room_;
  last_room_ = room;
  return foresee(slack, before, room, now_ns - last_look_ns_);
}

bool MemoryWatch::wanted(const Engine& engine) {
  const Arena& arena = engine.arena;
  const bool pressed = arena.limit() < arena.block_count() * kBlockSize;
  return pressed || arena.held_blocks() * kBlockSize > kLeast;
}

void MemoryWatch::account(uint64_t now_ns, uint64_t configured,
                          uint64_t target) {
  if (target < configured && last_look_ns_ != 0) {
    pressed_ns_.fetch_add(now_ns - last_look_ns_, std::memory_order_relaxed);
  }
  last_look_ns_ = now_ns;
}

void MemoryWatch::look(Engine& engine) {
  const uint64_t now = sys::coarse_ns();
  if (now < next_look_ns_ || !wanted(engine)) return;
  Arena& arena = engine.arena;
  const limits::Memory memory = limits::read_memory();
  const uint64_t configured = configured_bytes(engine, memory);
  const uint64_t held = arena.held_blocks() * kBlockSize;
  const State state{configured, held, arena.limit(),
                    slack_ahead(memory.slack, held, now), now >= calm_from_ns_};
  need_ = state.slack < 0;
  if (need_) calm_from_ns_ = now + kCalmNs;
  next_look_ns_ = now + static_cast<uint64_t>(pause().tv_nsec);
  const uint64_t target = next_target(state);
  arena.allow(target / kBlockSize);
  account(now, configured, target);
  if (arena.excess_blocks() == 0) return;
  engine.evictor.shrink(engine);
  const uint64_t left = arena.held_blocks() * kBlockSize;
  if (left < state.held) {
    given_back_.fetch_add(state.held - left, std::memory_order_relaxed);
  }
}

}  // namespace racache
