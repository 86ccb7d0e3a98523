// SPDX-License-Identifier: MIT
// The service thread: adopts files, gives leases up, lets go of what the
// application let go of. It has a descriptor table of its own, in which the
// engine's private descriptors live, so the application's numbers, limits,
// record locks and closefrom() never meet them.
//
// It alone creates, moves and frees File objects and their table, so those
// need no lock. Others talk to it through a lock-free list and wake it with a
// thread-directed signal, the same that tells of lease breaks.
#pragma once

#include <atomic>

#include "core/cache.h"
#include "core/file_table.h"

namespace racache {

struct Engine;

// One adoption, on the asking thread's stack; that thread waits on `done`.
struct AdoptRequest {
  int tid, fd;
  uint64_t device, inode;
  bool trust;  // RACACHE_COHERENCE=trust names it: no lease needed
  char path[200];
  File* file;  // the answer
  Reason reason;
  AdoptRequest* next;
  std::atomic<uint32_t> done;
};

class Service {
 public:
  // Starts the thread and waits until it has its private table. 0 or -errno.
  [[nodiscard]] int start(Engine& engine);

  // All of these are called with signals blocked, no lock held.
  void adopt(AdoptRequest& request);  // waits for the answer
  void released(File& file);  // its references fell to 0, or it is broken
  // Waits until the thread has gone round once; false at the timeout.
  bool settle(uint64_t timeout_ns);
  void give_up_all();  // every lease: the engine failed, or the process ends
  // Ends the thread, and with it its table; every lease goes. Waits for it.
  void stop();

 private:
  static void main(void* argument);
  void run();
  void wake();
  void wait_for_work();
  [[nodiscard]] uint64_t time_to_wait() const;
  void break_lease(File& file);
  void give_up(File& file);
  void scan_leases();
  void look_after_files(uint64_t now);
  void answer_requests();
  void answer(AdoptRequest& request);
  Reason open_file(AdoptRequest& request, File** out);
  Reason try_file(AdoptRequest& request, File** out);
  Reason lease_file(AdoptRequest& request, int fd, File** out);
  Reason set_up(AdoptRequest& request, int fd, File& file);
  void attach_buffered(AdoptRequest& request, File& file);

  Engine* engine_ = nullptr;
  FileTable table_;
  std::atomic<AdoptRequest*> requests_{nullptr};
  std::atomic<File*> reported_{nullptr};  // files that may have become idle
  std::atomic<bool> give_up_{false};
  std::atomic<bool> stop_{false};
  std::atomic<bool> woken_{false};     // a wake-up is queued
  std::atomic<bool> by_clock_{false};  // wake-ups cannot be queued
  std::atomic<uint32_t> rounds_{0};   // futex: rounds completed
  std::atomic<uint32_t> started_{0};  // futex
  int tid_ = 0;
  uint64_t next_look_ns_ = 0;  // 0: no file needs looking after
};

}  // namespace racache
