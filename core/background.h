// SPDX-License-Identifier: MIT
// The background thread: what takes long and nobody waits for. It shares the
// service thread's descriptor table and leaves that thread free for writers.
//
// - It has the kernel clear blocks of the arena ahead of need. Where free pages
//   are handed back to a host, clearing can be slower than the device. It does
//   so only while the arena grows, in proportion to what is used already.
// - It goes on with hints whose range is more than a caller should wait for.
// - It watches how much memory there is (memory_watch.h).
// - It submits the reads ahead of threads that must not be interrupted when
//   those finish (relay.h).
#pragma once

#include <atomic>

#include "core/backend.h"
#include "core/file.h"
#include "core/lock.h"
#include "core/order.h"

namespace racache {

struct Engine;

// The rest of a hint.
struct PendingHint {
  File* file;  // with a reference; null: free
  PageIndex next, end;
};
inline constexpr unsigned kMaxHints = 64;

class Background {
 public:
  // Before anyone else looks.
  void prepare(Engine& engine) { engine_ = &engine; }
  // Called by the service thread. Without a thread nothing is prepared and
  // hints are cut short; all else works. Tests may turn pump_hints() instead.
  void start();
  // Cheap; called where memory is about to be allocated.
  void nudge() {
    if (RACACHE_UNLIKELY(asleep_.load(std::memory_order_relaxed) != 0 &&
                         wanted())) {
      rouse();
    }
  }
  // Takes over [next, end) with a reference of its own. False: no room. Signals
  // blocked, no lock held.
  bool add_hint(File& file, PageIndex next, PageIndex end);
  // Takes reads over to submit them. False: the caller has to. Signals blocked,
  // no lock held.
  bool relay(ReadOp* const* reads, unsigned count);
  // One turn of every hint, which is what the thread does; true while any is
  // left.
  bool pump_hints();
  // Ends the thread and waits for that.
  void stop();
  // Has the thread obey, and waits for that; false when it could not.
  [[nodiscard]] bool follow(const Order& order);
  int tid() const { return tid_; }

 private:
  static void main(void* argument);
  void run();
  void sleep(bool reading);
  void rouse();
  [[nodiscard]] bool wanted() const;
  void refuse();
  bool go_on(PendingHint& hint);

  Engine* engine_ = nullptr;
  int tid_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<uint32_t> asleep_{0};  // futex; 1 while the thread sleeps
  Orders orders_;
  std::atomic<uint32_t> hint_count_{0};
  Lock lock_;                          // of hints_, but for a taken one's
  PendingHint hints_[kMaxHints] = {};  // fields, which are the thread's
};

}  // namespace racache
