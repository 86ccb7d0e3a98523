// SPDX-License-Identifier: MIT
// RACACHE_LIVE: the statistics so far, once a second, as the JSON of
// core/stats.h in a file DIRECTORY/PID.json of mode 0600 that `racache stat`
// reads. The file is replaced whole, so a reader needs no lock and costs the
// process nothing. It is gone when the process ends well; after a SIGKILL
// whoever lists the directory clears it away.
#pragma once

#include <atomic>

#include "core/config.h"
#include "core/order.h"

namespace racache {

struct Engine;
struct Snapshot;

class Live {
 public:
  // On a thread of the program's, which alone has the log. Makes the directory;
  // if it cannot be had, or others may write to it, there is a line in the log
  // and never a file.
  void prepare(const Config& config);
  // Called by the service thread, whose descriptors it shares.
  void start(Engine& engine);
  // Ends the thread and waits for that.
  void stop();
  // Has the thread obey, and waits for that; false when it could not.
  [[nodiscard]] bool follow(const Order& order);
  int tid() const { return tid_; }
  // At exit: no file from now on. Does not wait.
  void remove();

 private:
  static void main(void* argument);
  void run();
  long publish(Snapshot& snapshot);

  Engine* engine_ = nullptr;
  bool wanted_ = false;
  int tid_ = 0;
  std::atomic<uint32_t> over_{0};  // futex
  Orders orders_;
};

}  // namespace racache
