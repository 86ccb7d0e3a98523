// SPDX-License-Identifier: MIT
// Reader sections and grace periods.
//
// A hit runs inside a section: enter() and leave() are one plain store each.
// Whoever unpublishes something (a folio, an index leaf, a file, an open file
// description) takes a stamp = retire() afterwards and reuses the memory only
// when passed(stamp): by then every section that could have seen it is over.
// The reader's missing fence is supplied by the reclaimer with
// membarrier(PRIVATE_EXPEDITED); where the kernel has none, enter() fences.
// Why that is enough is argued in epoch.cc.
//
// Sections nest (a signal handler may read): only the outermost one counts.
// A section never blocks: waiting for I/O happens outside. A thread that ends
// inside a section holds nothing up. A handler that jumps (siglongjmp) out of
// one leaves it open until the thread ends: memory is then not reused, which
// is slow, never wrong.
//
// Each thread owns a ThreadSlot, found by an initial-exec TLS pointer of a few
// bytes without a destructor. A slot of a thread that has ended is taken over
// by a later thread (tkill says ESRCH). The slots lie in MADV_WIPEONFORK
// memory: a forked child finds them empty and claims anew; the TLS pointer is
// believed only while its process number matches. Slots also carry the thread's
// statistics counters (plain increments, summed at exit, inherited by a later
// owner).
#pragma once

#include <atomic>

#include "core/base.h"
#include "core/counters.h"
#include "core/recent.h"

namespace racache {

struct alignas(64) ThreadSlot {
  std::atomic<uint64_t> epoch;  // 0 outside a section
  std::atomic<uint64_t> owner;  // thread id (0 free); top half: times claimed
  Recent recent;                // a plain hit writes to this cache line only
  // The owner's only.
  bool submitted;      // reads, since quiesce()
  bool relays;         // has its reads ahead submitted by another
  bool private_table;  // shares the service thread's descriptors
  Counters counters;   // written by the owner only
};

namespace epoch {

inline constexpr uint32_t kSlots = 4096;

namespace detail {

// The first page of the WIPEONFORK mapping; the slots follow.
struct Header {
  std::atomic<uint32_t> process;  // this process's number; 0 not yet given
  std::atomic<uint32_t> used;     // slots below were claimed at some time
  std::atomic<uint32_t> cursor;   // where to look next for an ended owner
  std::atomic<uint32_t> barrier;  // Barrier, see epoch.cc; 0 undecided
};
// A thread's way to its slot, valid while `process` is the process's number.
struct ThreadRef {
  ThreadSlot* slot;
  uint32_t process;
  uint32_t retry;  // slots were used up: calls to let pass before looking again
};
// What the hot path reads is on a cache line that nobody writes to.
struct alignas(64) Root {
  std::atomic<Header*> header;
  std::atomic<bool> fence;  // enter() must fence; set before the first claim
};

[[gnu::tls_model("initial-exec"), gnu::visibility("hidden")]]  //
extern constinit thread_local ThreadRef ref;
[[gnu::visibility("hidden")]] extern constinit Root root;
// The global epoch, from 1.
[[gnu::visibility("hidden")]] extern constinit std::atomic<uint64_t> now;

RACACHE_COLD uint32_t make_process_number();
RACACHE_COLD ThreadSlot* claim();
void full_fence();

}  // namespace detail

// Maps the slots; idempotent and thread-safe; called before the first section.
// False when memory, or MADV_WIPEONFORK, cannot be had: then no section can be
// entered.
[[nodiscard]] bool init();

// A nonzero number that differs from those of all processes this one was
// forked from, however it was forked. A vfork child, which shares our memory,
// has ours. Lock-free; a load but for the first call in a process.
[[nodiscard]] inline uint32_t process_number() {
  const detail::Header* header =
      detail::root.header.load(std::memory_order_acquire);
  if (RACACHE_LIKELY(header != nullptr)) {
    const uint32_t number = header->process.load(std::memory_order_relaxed);
    if (RACACHE_LIKELY(number != 0)) return number;
  }
  return detail::make_process_number();
}

// The calling thread's slot, or nullptr (not initialised, or more threads than
// slots: the caller passes through). Async-signal-safe, no allocation.
[[nodiscard]] inline ThreadSlot* self() {
  const detail::ThreadRef& mine = detail::ref;
  if (RACACHE_LIKELY(mine.slot != nullptr)) {
    // Relaxed is enough: this thread has seen the mapping before, and only a
    // fork, which leaves one thread, changes the number.
    const detail::Header* header =
        detail::root.header.load(std::memory_order_relaxed);
    if (RACACHE_LIKELY(mine.process ==
                       header->process.load(std::memory_order_relaxed))) {
      return mine.slot;
    }
  }
  return detail::claim();
}
// Its counters, or nullptr.
[[nodiscard]] inline Counters* counters() {
  ThreadSlot* slot = self();
  return slot != nullptr ? &slot->counters : nullptr;
}

// The same once init() has succeeded, and this process's number; null also
// before the thread's first self() in this process, which claims. After a fork
// the process has no number until somebody asks for it, and no thread has that
// 0 and a slot.
[[nodiscard]] inline ThreadSlot* own(uint32_t& process) {
  const detail::Header* header =
      detail::root.header.load(std::memory_order_relaxed);
  const detail::ThreadRef& mine = detail::ref;
  process = header->process.load(std::memory_order_relaxed);
  return RACACHE_LIKELY(mine.process == process) ? mine.slot : nullptr;
}

// Outermost-only semantics: returns whether this call opened the section.
// Acquire on the global epoch: a section that begins after a retire() sees
// what was unpublished before it. Release on the slot: the section before this
// one is over for whoever sees this one's number.
inline bool enter(ThreadSlot& slot) {
  if (RACACHE_UNLIKELY(slot.epoch.load(std::memory_order_relaxed) != 0)) {
    return false;
  }
  slot.epoch.store(detail::now.load(std::memory_order_acquire),
                   std::memory_order_release);
  // The compiler must keep the order; the CPU's is the reclaimer's business.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (RACACHE_UNLIKELY(detail::root.fence.load(std::memory_order_relaxed))) {
    detail::full_fence();
  }
  return true;
}

// Release: all that the section read was read before its memory is reused.
inline void leave(ThreadSlot& slot, bool opened) {
  if (opened) slot.epoch.store(0, std::memory_order_release);
}

using Stamp = uint64_t;
// After the unpublishing. Stamps are unique and grow.
[[nodiscard]] Stamp retire();
// Non-blocking; advances the grace period when it can. Rate of membarrier
// calls is the caller's business (batch!). One success covers older stamps.
[[nodiscard]] bool passed(Stamp stamp);
// Waits up to `timeout_ns` for passed(stamp). Not inside a section.
[[nodiscard]] bool wait(Stamp stamp, uint64_t timeout_ns);

// Calls f(slot) for every slot ever used (statistics).
void for_each(void (*f)(ThreadSlot& slot, void* argument), void* argument);

// RAII for callers that have a slot.
class Section {
 public:
  explicit Section(ThreadSlot& slot) : slot_(slot), opened_(enter(slot)) {}
  ~Section() { leave(slot_, opened_); }
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;

 private:
  ThreadSlot& slot_;
  bool opened_;
};

}  // namespace epoch
}  // namespace racache
