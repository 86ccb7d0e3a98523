// SPDX-License-Identifier: MIT
// Why a reader never touches reused memory. The reclaimer does
//
//   U  unpublish X          the index no longer has it
//   R  s = retire()         now: s -> s + 1, a read-modify-write
//   g  load now             g > s, since R
//   B  membarrier           every thread of ours passes a full fence
//   S  scan the slots       done when none has an epoch in 1 .. s
//
// and the reader
//
//   E  e = now; slot = e    enter()
//   L  look X up, use it
//   Z  slot = 0             leave()
//
// Suppose L found X. If e > s, E read what R or a later retire() stored. Those
// are one chain of read-modify-writes, so E's acquire pairs with R's release,
// U happened before L, and L cannot have found X. So e <= s. B put a fence into
// the reader at some point of its program. Were that before L, then L, after
// the fence, would see U, before it, and not find X. So it was after L, hence
// after E, and S sees the slot's e or something later. Seeing e, the scan says
// no. Something later is Z's zero or the next section's E: both are releases
// that follow all of the reader's accesses, and S acquires. So the memory is
// reused after the last access. Where B is not to be had, enter() has a fence
// of its own between E and L, and the same argument holds with it.
//
// A scan finds the oldest epoch in use, so it settles every stamp below that
// and below g; `settled` remembers this for other stamps and other threads.
//
// Slots claimed during the scan are no matter: their sections' L comes after
// the claim, which `used`, read after B, would have shown.
#include "core/epoch.h"

#include <sched.h>
#include <cerrno>

#include "core/mapping.h"

namespace racache::epoch {
namespace detail {

constinit thread_local ThreadRef ref = {};
constinit Root root = {};
alignas(64) constinit std::atomic<uint64_t> now{1};

}  // namespace detail

namespace {

using detail::Header;
using detail::ref;
using detail::root;

constexpr auto kAcquire = std::memory_order_acquire;

// linux/membarrier.h, which old systems lack.
constexpr int kMembarrierExpedited = 1 << 3;
constexpr int kMembarrierRegister = 1 << 4;

enum Barrier : uint32_t { kUndecided, kMembarrier, kFence };

constexpr size_t kHeaderSize = 4096;
constexpr size_t kMappingSize = kHeaderSize + kSlots * sizeof(ThreadSlot);
constexpr uint32_t kProbes = 8;         // slots asked about before a fresh one
constexpr uint32_t kRetryAfter = 1000;  // calls of self() when all are taken

// The last number given; not wiped, so a child goes on from its parent's.
constinit std::atomic<uint32_t> last_number{0};
constinit std::atomic<bool> refused{false};
// Without the mapping: pid << 32 | number.
constinit std::atomic<uint64_t> number_by_pid{0};
// Every stamp <= settled has passed. Release/acquire hands on what the scan
// that raised it acquired from the readers.
constinit std::atomic<uint64_t> settled{0};

ThreadSlot* slots(Header* header) {
  return reinterpret_cast<ThreadSlot*>(reinterpret_cast<char*>(header) +
                                       kHeaderSize);
}

uint32_t new_number() {
  for (;;) {
    const uint32_t number = last_number.fetch_add(1, kRelaxed) + 1;
    if (number != 0) return number;
  }
}

// Whoever maps first wins; a refusal is final, so that numbers stay the same.
Header* map_slots() {
  Header* header = root.header.load(kAcquire);
  if (header != nullptr || refused.load(kRelaxed)) return header;
  void* memory = mapping::reserve(kMappingSize, MADV_WIPEONFORK);
  if (memory == nullptr) {
    refused.store(true, kRelaxed);
    return root.header.load(kAcquire);
  }
  if (root.header.compare_exchange_strong(header, static_cast<Header*>(memory),
                                          std::memory_order_acq_rel)) {
    return static_cast<Header*>(memory);
  }
  mapping::release(memory, kMappingSize);
  return header;
}

// Nothing is cached in this mode, so a number that a vfork child changes under
// its parent is only a nuisance.
uint32_t process_number_by_pid() {
  const uint64_t pid = static_cast<uint32_t>(sys::getpid());
  uint64_t seen = number_by_pid.load(kRelaxed);
  if (seen >> 32 == pid) return static_cast<uint32_t>(seen);
  const uint32_t number = new_number();
  if (number_by_pid.compare_exchange_strong(seen, pid << 32 | number)) {
    return number;
  }
  return static_cast<uint32_t>(seen);
}

long membarrier(int command) {
  return sys::invoke(SYS_membarrier, command, 0, 0);
}

// Decided once a process, before its first slot is claimed: a reader that does
// not fence relies on it. `fence` is only ever set; a forked child of a process
// that fences may use membarrier and fence as well.
uint32_t decide_barrier(Header* header) {
  uint32_t barrier = header->barrier.load(kAcquire);
  if (barrier != kUndecided) return barrier;
  const bool registered = membarrier(kMembarrierRegister) == 0;
  if (!registered) root.fence.store(true, kRelaxed);
  const uint32_t wanted = registered ? kMembarrier : kFence;
  if (header->barrier.compare_exchange_strong(barrier, wanted,
                                              std::memory_order_acq_rel)) {
    return wanted;
  }
  return barrier;
}

// B above. A membarrier that stops working (a seccomp filter installed later)
// leaves every stamp unpassed: nothing is reused any more.
bool fence_all_threads(Header* header) {
  if (decide_barrier(header) == kFence) {
    detail::full_fence();
    return true;
  }
  return membarrier(kMembarrierExpedited) == 0;
}

int32_t thread_of(uint64_t owner) { return static_cast<int32_t>(owner); }

// Another thread's claim of a slot always changes its owner word, even when
// the kernel has given a new thread the id of the old one.
uint64_t owned_by(int32_t thread, uint64_t before) {
  return ((before >> 32) + 1) << 32 | static_cast<uint32_t>(thread);
}

// tkill, not tgkill: a vfork-like child in our memory is another thread group.
// An id that a stranger's thread has got by now looks alive, which is safe.
bool has_ended(uint64_t owner) {
  return sys::invoke(SYS_tkill, thread_of(owner), 0) == -ESRCH;
}

bool take(ThreadSlot& slot, uint64_t seen, int32_t me) {
  if (!slot.owner.compare_exchange_strong(seen, owned_by(me, seen),
                                          std::memory_order_acq_rel)) {
    return false;
  }
  // Its last owner may have ended inside a section. Acquire: pairs with the
  // last leave(), for the counters' sake.
  if (slot.epoch.load(kAcquire) != 0) slot.epoch.store(0, kRelaxed);
  slot.relays = slot.private_table = false;
  return true;
}

void give_back(ThreadSlot& slot) {
  slot.owner.store(owned_by(0, slot.owner.load(kRelaxed)),
                   std::memory_order_release);
}

// A slot with this thread's id: claimed by a claim() that a signal handler
// jumped out of, or left by an ended thread of the same id.
ThreadSlot* find_own(Header* header, int32_t me) {
  const uint32_t used = header->used.load(kAcquire);
  for (uint32_t i = 0; i < used; ++i) {
    ThreadSlot& slot = slots(header)[i];
    const uint64_t owner = slot.owner.load(kRelaxed);
    if (thread_of(owner) == me && take(slot, owner, me)) return &slot;
  }
  return nullptr;
}

ThreadSlot* find_ended(Header* header, int32_t me, uint32_t probes) {
  const uint32_t used = header->used.load(kAcquire);
  for (uint32_t i = 0; used != 0 && i < probes; ++i) {
    const uint32_t at = header->cursor.fetch_add(1, kRelaxed) % used;
    ThreadSlot& slot = slots(header)[at];
    const uint64_t owner = slot.owner.load(kAcquire);
    const bool vacant = thread_of(owner) == 0 || has_ended(owner);
    if (vacant && take(slot, owner, me)) return &slot;
  }
  return nullptr;
}

// A slot below `used` that is not taken yet has owner 0 and epoch 0.
ThreadSlot* take_fresh(Header* header, int32_t me) {
  uint32_t used = header->used.load(kAcquire);
  while (used < kSlots) {
    if (header->used.compare_exchange_weak(used, used + 1)) {
      ThreadSlot& slot = slots(header)[used];
      if (take(slot, 0, me)) return &slot;
      used = header->used.load(kAcquire);  // someone found it vacant first
    }
  }
  return nullptr;
}

ThreadSlot* find_slot(Header* header, int32_t me) {
  if (ThreadSlot* slot = find_own(header, me)) return slot;
  if (ThreadSlot* slot = find_ended(header, me, kProbes)) return slot;
  if (ThreadSlot* slot = take_fresh(header, me)) return slot;
  return find_ended(header, me, kSlots);
}

// Whether the section that was seen open in `slot` still is. The owner is read
// after the epoch: an owner who came later than what we read here has not
// written the epoch that we saw, and everyone before has ended.
bool owner_alive(const ThreadSlot& slot) {
  return !has_ended(slot.owner.load(kAcquire));
}

// The oldest epoch below `bound` that a living thread's section has, or bound.
uint64_t oldest_section(Header* header, uint64_t bound) {
  const uint32_t used = header->used.load(kAcquire);
  for (uint32_t i = 0; i < used; ++i) {
    const ThreadSlot& slot = slots(header)[i];
    const uint64_t epoch = slot.epoch.load(kAcquire);
    if (epoch != 0 && epoch < bound && owner_alive(slot)) bound = epoch;
  }
  return bound;
}

void raise_settled(uint64_t stamp) {
  uint64_t seen = settled.load(kRelaxed);
  while (seen < stamp && !settled.compare_exchange_weak(
                             seen, stamp, std::memory_order_acq_rel)) {
  }
}

void pause_for(uint64_t ns) {
  const timespec time = sys::to_timespec(ns);
  sys::invoke(SYS_nanosleep, &time, 0L);
}

}  // namespace

namespace detail {

// ThreadSanitizer does not know fences; a read-modify-write of a word of all
// threads is one that it knows.
void full_fence() {
#if defined(__SANITIZE_THREAD__)
  now.fetch_add(0, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

uint32_t make_process_number() {
  Header* header = map_slots();
  if (header == nullptr) return process_number_by_pid();
  uint32_t seen = header->process.load(kRelaxed);
  if (seen != 0) return seen;
  const uint32_t number = new_number();
  if (header->process.compare_exchange_strong(seen, number)) return number;
  return seen;
}

// A signal handler may come in anywhere and claim a slot for this thread: then
// its slot is the thread's, and the one found here goes back.
ThreadSlot* claim() {
  Header* header = root.header.load(kAcquire);
  if (header == nullptr) return nullptr;
  const uint32_t process = process_number();
  if (ref.process == process && ref.retry != 0) {
    --ref.retry;
    return nullptr;
  }
  decide_barrier(header);
  ThreadSlot* slot = find_slot(header, sys::gettid());
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (ref.process == process && ref.slot != nullptr) {
    if (slot != nullptr && slot != ref.slot) give_back(*slot);
    return ref.slot;
  }
  ref.slot = slot;
  ref.retry = slot == nullptr ? kRetryAfter : 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  ref.process = process;
  return slot;
}

}  // namespace detail

bool init() {
  Header* header = map_slots();
  if (header == nullptr) return false;
  (void)process_number();
  decide_barrier(header);
  return true;
}

// R above. The release half covers the unpublishing; sequentially consistent
// for the fallback, where readers fence.
Stamp retire() { return detail::now.fetch_add(1, std::memory_order_seq_cst); }

bool passed(Stamp stamp) {
  if (stamp <= settled.load(kAcquire)) return true;
  Header* header = root.header.load(kAcquire);
  if (header == nullptr) return true;  // no thread has ever had a slot
  const uint64_t current = detail::now.load(kAcquire);
  if (!fence_all_threads(header)) return false;
  const uint64_t oldest = oldest_section(header, current);
  raise_settled(oldest - 1);
  return stamp < oldest;
}

// Sections are short: what they wait for is mostly a preempted reader.
bool wait(Stamp stamp, uint64_t timeout_ns) {
  const uint64_t deadline = sys::monotonic_ns() + timeout_ns;
  for (uint64_t pause = 20000;; pause = pause < 500000 ? pause * 2 : pause) {
    if (passed(stamp)) return true;
    const uint64_t time = sys::monotonic_ns();
    if (time >= deadline) return false;
    pause_for(pause < deadline - time ? pause : deadline - time);
  }
}

void for_each(void (*f)(ThreadSlot& slot, void* argument), void* argument) {
  Header* header = root.header.load(kAcquire);
  if (header == nullptr) return;
  const uint32_t used = header->used.load(kAcquire);
  for (uint32_t i = 0; i < used; ++i) f(slots(header)[i], argument);
}

}  // namespace racache::epoch
