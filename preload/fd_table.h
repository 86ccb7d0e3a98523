// SPDX-License-Identifier: MIT
// Descriptor number -> open file description, and the calls that change it.
//
// Only descriptions that our open hooks created with O_RDONLY (no O_DIRECT, no
// O_PATH) are tracked; every other number is an empty slot and passes through.
// Hooks call these around the real call; they keep errno.
//
// Invariants
// - A slot is one 64-bit word, changed by compare-and-swap or exchange only, so
//   the table needs no lock and survives any kind of fork.
// - A slot names a description only while the number is open on it: unlinked
//   before the kernel's close, linked after the kernel's open. So whoever finds
//   the same word after a system call as before it knows what the call met.
// - The generation half changes with every link and unlink.
// - The table belongs to one process. A CLONE_VM child (vfork) shares the
//   memory but has numbers of its own: it changes nothing, and only marks a
//   slot whose number it closes or reuses `contested`. A contested slot costs
//   its readers a getpid() each time. It counts for the owner, and for those
//   children in which the number is still what it was (kcmp(2) says so).
#pragma once

#include <atomic>

#include "core/base.h"

namespace racache::preload {

// After a successful open(2)-like call. Forgets whatever the slot held.
void fd_opened(int fd, int flags);
// Before the kernel's close, and whenever libc closes or replaces a number
// behind our back (fclose, freopen, closedir, daemon).
void fd_closing(int fd);
void fd_range_closing(unsigned first, unsigned last);
// Around dup2/dup3: before the real call, then after its success. Should the
// real call fail, the number is merely untracked, with its position in place.
void fd_replacing(int new_fd);
void fd_duplicated(int old_fd, int new_fd);

// The position of this description becomes the kernel's for good: written back
// by lseek, then shared (design.md, section 5). No-op for untracked numbers.
void share_position(int fd);
enum class Share { kAll, kInheritable /* without FD_CLOEXEC */ };
void share_positions(Share which);

// All of them, and those that are opened later.
void share_positions_for_good();

// In a forked child with one thread: pins and locks of the parent's other
// threads are dropped.
void fd_forget_threads();

// The description becomes the kernel's for good, not just its position: the
// program takes O_DIRECT or a lease, or others may (an SCM_RIGHTS message).
void give_to_kernel(int fd);

// False in a CLONE_VM child (vfork): it shares our memory, not our numbers. A
// system call once the process has made a child in one of the ways that share
// (each of which begins with share_positions(kInheritable)).
[[nodiscard]] bool in_own_process();

// The numbers are no longer the same for all threads (CLONE_FILES undone): all
// positions are the kernel's from here on, and nothing is tracked any more.
void fd_forget_everything();

// ---- What the other parts of preload/ look up. ----

inline constexpr uint32_t kContested = uint32_t{1} << 31;
inline constexpr uint32_t kNumberMask = kContested - 1;
inline constexpr uint64_t kGenerationStep = uint64_t{1} << 32;

constexpr uint32_t number_of(uint64_t word) {  // of the open file; 0 none
  return static_cast<uint32_t>(word) & kNumberMask;
}

#pragma GCC visibility push(hidden)
namespace table {
// Set once, slots before limit (release; a reader of limit acquires). A limit
// of 0 is a table not made yet: every number passes through.
extern std::atomic<uint64_t>* slots;
extern std::atomic<uint32_t> limit;
}  // namespace table
#pragma GCC visibility pop

// The slot's word, 0 for numbers without a slot. Acquire: pairs with the link,
// so that the description behind it is seen complete.
inline uint64_t slot_word(int fd) {
  if (static_cast<uint32_t>(fd) >= table::limit.load(std::memory_order_acquire))
    return 0;
  return table::slots[fd].load(std::memory_order_acquire);
}

// The same for a number that had a slot before: the limit never falls.
inline uint64_t tracked_word(int fd) {
  return table::slots[fd].load(std::memory_order_acquire);
}

// What every hook asks first. False is certain; true may be contested.
RACACHE_HOT inline bool tracked(int fd) {
  return number_of(slot_word(fd)) != 0;
}

// The word, or 0 when the number is not tracked in this process.
[[nodiscard]] RACACHE_COLD uint64_t contested_word(int fd, uint64_t word);
inline uint64_t own_word(int fd) {
  const uint64_t word = slot_word(fd);
  if (number_of(word) == 0) return 0;
  if (RACACHE_UNLIKELY((word & kContested) != 0))
    return contested_word(fd, word);
  return word;
}

// Whether the slot still names what it named (contested since or not).
inline bool same_slot(int fd, uint64_t word) {
  return ((slot_word(fd) ^ word) & ~uint64_t{kContested}) == 0;
}

}  // namespace racache::preload
