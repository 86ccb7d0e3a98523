// SPDX-License-Identifier: MIT
// The engine's part of the statistics: what it knows when it is asked.
#include <fcntl.h>
#include <cstring>

#include "core/engine.h"

namespace racache::engine {
namespace {

// A plain hit is all of these at once, so the hot path counts it only once.
void add_plain_hits(const Recent& recent, Counters& sum) {
  const uint64_t hits = recent.hits;
  sum.read_calls += hits;
  sum.hits += hits;
  sum.lookups += hits;
  sum.syscalls_avoided += hits;
  const uint64_t bytes = recent.hit_bytes;
  sum.read_bytes += bytes;
  sum.hit_bytes += bytes;
}

void add_slot(ThreadSlot& slot, void* argument) {
  Counters& sum = *static_cast<Counters*>(argument);
#define RACACHE_X(name) sum.name += slot.counters.name;
  RACACHE_COUNTERS(RACACHE_X)
#undef RACACHE_X
  for (unsigned o = 0; o < kOrders; ++o) {
    sum.inserted_by_order[o] += slot.counters.inserted_by_order[o];
  }
  add_plain_hits(slot.recent, sum);
}

// Keeps the kTopFiles files with the most reads, unsorted.
void offer(TopFile* top, unsigned* count, const TopFile& file) {
  if (file.reads == 0) return;
  if (*count < kTopFiles) {
    top[(*count)++] = file;
    return;
  }
  unsigned least = 0;
  for (unsigned i = 1; i < kTopFiles; ++i) {
    if (top[i].reads < top[least].reads) least = i;
  }
  if (top[least].reads < file.reads) top[least] = file;
}

TopFile describe(const File& file) {
  TopFile t{};
  std::memcpy(t.path, file.path, sizeof file.path);
  t.hits = file.hits.load(std::memory_order_relaxed);
  t.reads = t.hits + file.waits.load(std::memory_order_relaxed);
  t.device_bytes = file.device_bytes.load(std::memory_order_relaxed);
  return t;
}

void sort_top(Snapshot& s) {
  for (unsigned i = 1; i < s.top_count; ++i) {
    for (unsigned k = i; k > 0 && s.top[k - 1].reads < s.top[k].reads; --k) {
      const TopFile swap = s.top[k];
      s.top[k] = s.top[k - 1];
      s.top[k - 1] = swap;
    }
  }
}

void collect_buried(Engine& engine, Snapshot& s) {
  SignalGuard signals;
  LockGuard guard(engine.buried_lock);
  for (const TopFile& buried : engine.buried) {
    offer(s.top, &s.top_count, buried);
  }
}

void collect_top(Engine& engine, Snapshot& s) {
  recent::settle(nullptr);
  collect_buried(engine, s);
  const uint32_t used = engine.files_used.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < used; ++i) {
    const File& file = engine.files[i];
    if (file.state.load(std::memory_order_relaxed) != File::State::kFree) {
      offer(s.top, &s.top_count, describe(file));
    }
  }
  sort_top(s);
}

void collect_folios(const Engine& engine, Snapshot& s) {
  const Arena& arena = engine.arena;
  for (FolioId id = arena.next_in_use(1); id != kNoFolio;) {
    const uint32_t word = arena.folio(id).word.load(std::memory_order_relaxed);
    const unsigned order = Folio::order_of(word);
    if ((word & Folio::kDead) == 0 && order < kOrders) {
      ++s.live_folios;
      ++s.live_by_order[order];
    }
    id = arena.next_in_use(id + (1u << order));
  }
}

void collect_memory(const Engine& engine, Snapshot& s) {
  s.memory_limit = engine.arena.limit();
  for (unsigned o = 0; o < kOrders; ++o) {
    s.memory_used += s.live_by_order[o] * (kPageSize << o);
  }
  s.memory_metadata = engine.metadata.used() + engine.arena.metadata_bytes() +
                      engine.evictor.policy().metadata_bytes();
  s.memory_huge = engine.arena.huge_bytes();
  s.memory_given_back = engine.memory_watch.given_back();
  s.memory_pressed =
      static_cast<double>(engine.memory_watch.pressed_ns()) / 1e9;
}

void program_name(char (&out)[64]) {
  const long fd = sys::invoke(SYS_openat, AT_FDCWD, "/proc/self/comm",
                              O_RDONLY | O_CLOEXEC);
  long n = sys::failed(fd) ? 0 : sys::invoke(SYS_read, fd, out, sizeof out - 1);
  if (!sys::failed(fd)) sys::invoke(SYS_close, fd);
  if (n < 0) n = 0;
  while (n > 0 && out[n - 1] == '\n') --n;
  out[n] = 0;
}

}  // namespace

void remember_statistics(Engine& engine, const File& file) {
  LockGuard guard(engine.buried_lock);
  unsigned count = 0;
  while (count < kTopFiles && engine.buried[count].reads != 0) ++count;
  offer(engine.buried, &count, describe(file));
}

void fill_snapshot(Engine& engine, Snapshot& s) {
  epoch::for_each(add_slot, &s.counters);
  collect_folios(engine, s);
  collect_memory(engine, s);
  collect_top(engine, s);
  for (size_t i = 0; i < static_cast<size_t>(Reason::kCount); ++i) {
    s.kernel_files[i] = refusals(static_cast<Reason>(i));
  }
  s.io = engine.backend->name;
  s.io_why = engine.io_why;
  s.pid = engine.pid;
  s.seconds = static_cast<double>(sys::monotonic_ns() - engine.start_ns) / 1e9;
  program_name(s.program);
}

}  // namespace racache::engine
