// SPDX-License-Identifier: MIT
// The file position of an open file description: one word, four forms.
//
//   >= 0                          private: it lives here
//   kernel | incarnation | count  in the kernel, never escaped, `count` calls
//                                 that move it under way
//   moving | waiters              a thread with signals blocked is in lseek
//   shared                        in the kernel for good
//
//   kernel(0) -> moving -> private   the file was adopted
//   private -> private               a claim or a seek, by compare-and-swap
//   private -> moving -> private     a seek that only the kernel can do
//   private -> moving -> shared      it escapes: written back
//   kernel(n) -> shared              it escapes
//
// Invariants
// - A position becomes private only while no kernel call on it is under way
//   (count 0), so none is lost between the two places. A call whose thread was
//   torn out of it (siglongjmp, cancellation) leaves the count too high: then
//   the position stays in the kernel.
// - lseek is called only between begin_move and end_move, and begin_move has
//   seen the slot still linked after `moving` was visible. Whoever closes or
//   replaces the number unlinks first and then waits while it is `moving`. One
//   of the two sees the other, so our lseek never meets another open file.
// - A reader claims [pos, pos + n) before it copies, and puts the rest back if
//   it got less and nobody has moved on: concurrent readers get disjoint ranges
//   in some order, as the kernel's position lock gives them.
#pragma once

#include "preload/open_file.h"

namespace racache::preload::position {

// The `count` half is what begin and end of a kernel call add and take away.
inline constexpr int64_t kKernel = INT64_MIN;
inline constexpr int64_t kMoving = INT64_MIN | int64_t{1} << 61;
inline constexpr int64_t kShared = INT64_MIN | int64_t{2} << 61;
inline constexpr int64_t kFormMask = INT64_MIN | int64_t{3} << 61;
inline constexpr int64_t kCountMask = 0xffff;
inline constexpr int64_t kWaiters = 1;

constexpr bool is_private(int64_t word) { return word >= 0; }
constexpr int64_t form_of(int64_t word) { return word & kFormMask; }
constexpr bool is_kernel(int64_t word) { return form_of(word) == kKernel; }
constexpr bool is_moving(int64_t word) { return form_of(word) == kMoving; }
constexpr bool is_shared(int64_t word) { return form_of(word) == kShared; }
constexpr int64_t count_of(int64_t word) { return word & kCountMask; }
constexpr int64_t in_kernel(uint32_t incarnation) {
  return kKernel | int64_t{incarnation} << 16;
}

// A stretch of the file that one read call owns.
struct Claim {
  bool ok;  // false: the position is not private
  uint64_t at;
  size_t count;  // clipped to the file's size
};
RACACHE_HOT inline Claim claim(OpenFile& open, size_t count, uint64_t size) {
  // Relaxed: the word itself is all there is; the file's contents are ordered
  // by the stage, which the caller has acquired.
  int64_t word = open.position.load(std::memory_order_relaxed);
  for (;;) {
    if (!is_private(word)) return {false, 0, 0};
    const uint64_t at = static_cast<uint64_t>(word);
    const uint64_t left = at < size ? size - at : 0;
    const size_t n = count < left ? count : static_cast<size_t>(left);
    if (n == 0 ||
        open.position.compare_exchange_weak(
            word, word + static_cast<int64_t>(n), std::memory_order_relaxed)) {
      return {true, at, n};
    }
  }
}
inline void settle(OpenFile& open, const Claim& claim, size_t done) {
  if (RACACHE_LIKELY(done >= claim.count)) return;
  int64_t end = static_cast<int64_t>(claim.at + claim.count);
  open.position.compare_exchange_strong(
      end, static_cast<int64_t>(claim.at + done), std::memory_order_relaxed);
}

// A kernel call that moves the position, from enter() to destruction. enter()
// is false when the position is not the kernel's (any more): look again.
class KernelUse {
 public:
  KernelUse() = default;
  ~KernelUse() {
    if (open_ != nullptr) leave();
  }
  KernelUse(const KernelUse&) = delete;
  KernelUse& operator=(const KernelUse&) = delete;
  [[nodiscard]] bool enter(OpenFile& open);

 private:
  void leave();
  OpenFile* open_ = nullptr;
  uint32_t incarnation_ = 0;  // the memory may serve another file meanwhile
};

// All below are called with a pin and a stage of this process.

// The kernel's position becomes private, if no kernel call is using it.
// Signals blocked, stage adopting.
void make_private(const Held& held);
// The same later, in stage cached, if it could not be done at once.
void make_private_if_idle(const Held& held);
// From now on no position becomes private: the program may let the kernel move
// any of them where we do not see it. No pin needed.
void stay_in_kernel();
// Written back and shared. False when the number is open on something else by
// now: nothing was changed.
bool share(const Held& held);
// An lseek that needs the kernel: its result (or -errno), or kPass when the
// position is the kernel's anyway and `use` covers the caller's own call.
inline constexpr long kPass = -5000;  // beyond every errno
long seek(const Held& held, off_t offset, int whence, KernelUse& use);

// Returns when the position is not moving, or after a while.
void wait_while_moving(OpenFile& open);
// For those who unlinked a slot: until no lseek on its number is under way.
void wait_until_still(OpenFile& open);

}  // namespace racache::preload::position
