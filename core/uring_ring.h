// SPDX-License-Identifier: MIT
// One io_uring shared by all threads: its queues, its descriptor, its files.
//
// Invariants
// - Every entry put into the submission queue yields exactly one completion,
//   and at most cq_entries of them are under way or unread, so the completion
//   queue cannot overflow.
// - Published entries are never lost: what one enter leaves, the next takes.
// - The application may close our descriptor by a raw system call. Our mapping
//   keeps the ring itself alive, so whatever the kernel has already taken still
//   completes, visibly in the mapping. Only unsubmitted entries must be given
//   back, and only when no thread can still be submitting them.
// - libc is not called: its close() and friends belong to the interposer.
#pragma once

#include <atomic>

#include "core/backend.h"
#include "core/lock.h"

#include <liburing.h>

namespace racache {

struct UringOptions;

class Ring {
 public:
  struct Completion {
    ReadOp* op;
    long result;
  };

  // 0 or -errno. Nothing is left behind on failure.
  [[nodiscard]] int setup(const UringOptions& options);
  void teardown();
  // Gives the descriptor and the files back while others may be reading. The
  // ring counts as lost from then on.
  void close();

  // Puts ops, from the front, into the submission queue; returns how many.
  unsigned place(ReadOp* const* ops, unsigned count);
  unsigned pending() const;  // placed, but not handed to the kernel yet
  // Hands the queue to the kernel. False: it would not take all of it now.
  bool flush();

  // The consumer's side, for one thread at a time (the caller sees to that).
  unsigned completed() const;
  unsigned pop(Completion* out, unsigned room);
  // While the ring is frozen the kernel does not learn of popped completions:
  // then wait_completion() returns at once if one was popped since freeze(),
  // and its caller, who may be waiting for just that one, can look again.
  void freeze() { frozen_.store(true, std::memory_order_relaxed); }
  void unfreeze() { frozen_.store(false, std::memory_order_release); }
  void publish();
  // Sleeps until a completion is there, at most `ns`; false when it came not.
  bool wait_completion(uint64_t ns);
  // Finished reads are not in the completion queue before the thread that
  // submitted them passes through the kernel: whether there are any such, and
  // how this thread sees to its own, and to those of all that run.
  bool has_task_work() const;
  void run_task_work();
  void prod_submitters();

  // Placed but not popped yet.
  bool in_flight() const {
    return placed_.load(std::memory_order_seq_cst) !=
           popped_.load(std::memory_order_seq_cst);
  }
  // Entries are counted in groups, so that a thread can wait for all that were
  // placed before it asked, while others go on placing. An entry belongs to the
  // latest group; next_group() begins another if all of the one before the
  // latest are popped. So when two were begun after the question, all are.
  uint32_t group() const { return group_.load(std::memory_order_acquire); }
  void next_group();

  // Service thread only.
  int attach(int fd);
  void detach(int slot);

  int fd() const { return lost() ? -1 : fd_.load(std::memory_order_acquire); }
  bool move_fd();
  bool lost() const { return lost_.load(std::memory_order_seq_cst); }

 private:
  static constexpr unsigned kMaxSlots = 8192;

  int create(const UringOptions& options);
  int create_with(const UringOptions& options, unsigned flags);
  int register_files(unsigned want);
  int update_file(unsigned slot, int fd);
  unsigned room() const;
  int own_fd() const;
  void fill(unsigned at, ReadOp& op);
  long enter(unsigned submit, unsigned wait, unsigned flags, const void* arg,
             size_t size);
  long submit_pending(unsigned count);
  void lose();
  ReadOp* take_back();
  void abandon();

  io_uring ring_ = {};  // geometry and mappings; constant after setup()
  Lock sq_lock_;        // the submission queue's tail and entries
  // Entries ever placed, as the queue's tail counts them. Stored with sq_lock_
  // held. seq_cst: a sleeper that saw nothing in flight is in the sleepers'
  // list before it looks; the submitter looks there after it stored.
  std::atomic<uint32_t> placed_{0};
  // Completions ever popped. Stored by the consumer.
  std::atomic<uint32_t> popped_{0};
  std::atomic<uint32_t> group_{0};  // stored with sq_lock_ held
  // Placed but not popped, of the latest group and the one before it, by the
  // last bit of their numbers. Release: what the popper did is done.
  std::atomic<uint32_t> under_way_[2] = {};
  bool cooperative_ = false;         // constant after setup()
  std::atomic<bool> frozen_{false};  // release: after the freezer's enter
  std::atomic<bool> lost_{false};    // seq_cst, against submitters_
  // Threads that may be handing entries to the kernel. Whoever makes it zero
  // after lost_ was set, or finds it zero when setting lost_, gives back what
  // was not submitted.
  std::atomic<uint32_t> submitters_{0};
  // Our number in the application's table; the service thread's own table
  // keeps the ring under service_fd_, whatever the application does.
  std::atomic<int> fd_{-1};
  int service_fd_ = -1;
  unsigned slots_ = 0;
  uint64_t slot_used_[kMaxSlots / 64] = {};  // service thread only
};

}  // namespace racache
