// SPDX-License-Identifier: MIT
// Everything one process's engine owns, in one MADV_DONTFORK mapping; and the
// root by which hooks find it.
//
// The root lies in a MADV_WIPEONFORK page: a child, however it was made, finds
// no engine there and starts its own at its first eligible read.
#pragma once

#include <atomic>

#include "core/arena.h"
#include "core/backend.h"
#include "core/background.h"
#include "core/cache.h"
#include "core/config.h"
#include "core/evict.h"
#include "core/file.h"
#include "core/fill_op.h"
#include "core/live.h"
#include "core/memory_watch.h"
#include "core/metadata.h"
#include "core/relay.h"
#include "core/service.h"
#include "core/stats.h"

namespace racache {

inline constexpr uint32_t kMaxFiles = 32 << 10;

struct Engine {
  Config config;
  Arena arena;
  Metadata metadata;
  Backend* backend;
  bool with_threads;  // the backend is the threads one
  OpPool ops;
  Relay relay;
  Evictor evictor;
  Service service;
  Background background;
  MemoryWatch memory_watch;
  Live live;
  File* files;                       // kMaxFiles, lazily touched
  std::atomic<uint32_t> files_used;  // high-water mark
  std::atomic<bool> failed;          // ring lost: nothing more is cached
  std::atomic<uint64_t> verify_tick;
  char io_why[64];  // why not uring, or ""
  uint64_t start_ns;
  Lock buried_lock;
  TopFile buried[kTopFiles];  // the most read of the files let go of
  uint32_t generation;
  int pid;
  Lock fork_lock;  // of `forks` and of what the kernel is told for them
  uint32_t forks;  // under way, by handlers that interrupted a hit
};

namespace engine {

// The process's engine, or null (none yet, or a forked child).
[[nodiscard]] Engine* current();
[[nodiscard]] const Config& config();
// Counts a file that stays the kernel's. Works without an engine.
void count_refusal(Reason reason);
[[nodiscard]] uint32_t refusals(Reason reason);
// Ends caching for good: the ring was closed under us.
void fail(Engine& engine, Reason reason);
// This file is not to be believed (a verification failed).
void distrust(File& file);
// Called by the service thread once it has its private table: other threads
// that are to share it start now.
void in_private_table(Engine& engine);
// Called by it a little later: those that nobody waits for.
void start_helpers(Engine& engine);
// From now on this process has no engine, and gets no other: the one that it
// had, or null.
[[nodiscard]] Engine* detach();
// By the service thread, when no thread of the program is left.
void end_with_program(Engine& engine);
[[nodiscard]] bool is_ours(const Engine& engine, int tid);  // its thread
// Keeps a buried file's counts for the list of top files.
void remember_statistics(Engine& engine, const File& file);

// What the engine knows, for the statistics.
void fill_snapshot(Engine& engine, Snapshot& snapshot);

}  // namespace engine
}  // namespace racache
