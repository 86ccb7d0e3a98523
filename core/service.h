// SPDX-License-Identifier: MIT
// The service thread: adopts files, gives leases up, lets go of what the
// application let go of. It has a descriptor table of its own, in which the
// engine's private descriptors live, so the application's numbers, limits,
// record locks and closefrom() never meet them.
//
// It alone creates, moves and frees File objects and their table, so those
// need no lock. Others talk to it through a lock-free list and wake it with a
// thread-directed signal, the same that tells of lease breaks.
//
// When the last thread of the program is gone it ends too, and so the process,
// as without us.
#pragma once

#include <atomic>

#include "core/cache.h"
#include "core/file_table.h"
#include "core/order.h"

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
  // Starts the thread, which answers when it has its private table: a program
  // whose first read is waiting does not wait for that as well. 0 or -errno.
  [[nodiscard]] int start(Engine& engine);
  // Returns when the thread has numbers of its own and has started the others:
  // before the ring moves, and before anyone ends or counts threads.
  void wait_until_complete();
  // For tests without the thread: nobody is woken.
  void prepare(Engine& engine) { engine_ = &engine; }

  // All of these are called with signals blocked, no lock held.
  void adopt(AdoptRequest& request);  // waits for the answer
  void released(File& file);  // its references fell to 0, or it is broken
  // Has all threads of ours obey; false when one could not.
  [[nodiscard]] bool follow(const Order& order);
  // The program is to have that file for itself: dropped, and never adopted
  // again. Waits 50 ms at most until no descriptor of ours is open on it;
  // whether one was.
  bool shun(uint64_t device, uint64_t inode);
  // A thread of the program is about to leave behind libc's back.
  void expect_end(int status);
  int tid() const { return tid_.load(std::memory_order_relaxed); }
  // Waits until the thread has gone round once; false at the timeout.
  bool settle(uint64_t timeout_ns);
  void give_up_all();  // every lease: the engine failed, or the process ends
  // Ends the thread, and with it its table; every lease goes. Waits for it. Who
  // asks for anything later is refused.
  void stop();

 private:
  static void main(void* argument);
  [[nodiscard]] bool answers();
  void run();
  void become_complete();
  void wake();
  void wait_for_work();
  bool take_signal(uint64_t wait_ns);
  [[nodiscard]] uint64_t time_to_wait() const;
  void break_lease(File& file);
  void give_up(File& file);
  void scan_leases();
  void look_after_files(uint64_t now);
  void answer_requests();
  void refuse_requests();
  void finish();
  // What others ask for beside adoptions, one at a time.
  struct Task {
    const Order* order;  // or, when null:
    uint64_t device, inode;
  };
  bool perform(const Task& task);
  void do_task();
  [[nodiscard]] bool obey(const Order& order);
  [[nodiscard]] bool is_shunned(uint64_t device, uint64_t inode) const;
  bool shun_now(uint64_t device, uint64_t inode);
  [[nodiscard]] bool program_is_gone(uint64_t now);
  [[nodiscard]] int last_status(int first_status) const;
  void answer(AdoptRequest& request);
  Reason open_file(AdoptRequest& request, File** out);
  Reason try_file(AdoptRequest& request, File** out);
  Reason lease_file(AdoptRequest& request, int fd, File** out);
  Reason set_up(AdoptRequest& request, int fd, File& file);
  void attach_buffered(AdoptRequest& request, File& file);

  // What the list of requests is when nobody answers any more.
  static AdoptRequest* closed() { return reinterpret_cast<AdoptRequest*>(8); }

  Engine* engine_ = nullptr;
  FileTable table_;
  std::atomic<AdoptRequest*> requests_{nullptr};
  std::atomic<File*> reported_{nullptr};  // files that may have become idle
  std::atomic<bool> give_up_{false};
  std::atomic<bool> stop_{false};
  std::atomic<bool> woken_{false};     // a wake-up is queued
  std::atomic<bool> by_clock_{false};  // wake-ups cannot be queued
  // No wake-up is sent any more: the thread's number may be another's. Set
  // first, wakers_ looked at second; wakers do it the other way round
  // (seq_cst).
  std::atomic<bool> ended_{false};
  std::atomic<uint32_t> wakers_{0};
  Lock task_lock_;                          // of one who waits for a task
  std::atomic<const Task*> task_{nullptr};  // release, acquire
  std::atomic<uint32_t> task_result_{0};    // futex: 0 not yet, 1 no, 2 yes
  std::atomic<uint32_t> rounds_{0};         // futex: rounds completed
  std::atomic<uint32_t> complete_{0};       // futex
  std::atomic<int> tid_{0};                 // set before anyone else asks
  uint64_t next_look_ns_ = 0;               // 0: no file needs looking after
  uint64_t next_census_ns_ = 0;
  uint64_t break_time_ns_ = 0;  // read again at each census
  std::atomic<bool> census_soon_{false};
  // Of the thread whose end was expected last, above its exit status.
  std::atomic<uint64_t> expected_end_{0};
  int last_seen_ = 0;    // the only one of the program's threads at a census
  int exit_status_ = 0;  // when it is gone
  // Files that the program has leased. When there are more, none is adopted.
  static constexpr unsigned kMostShunned = 64;
  struct {
    uint64_t device, inode;
  } shunned_[kMostShunned] = {};
  unsigned shunned_count_ = 0;
};

}  // namespace racache
