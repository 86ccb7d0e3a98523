// SPDX-License-Identifier: MIT
// The File objects, found by inode or by private descriptor. The service
// thread's own: nothing here is locked.
#pragma once

#include "core/file.h"

namespace racache {

struct Engine;

class FileTable {
 public:
  [[nodiscard]] bool init(Engine& engine);

  // A leased or dormant file of that inode, or null.
  File* find(uint64_t device, uint64_t inode) const;
  File* find_by_fd(int fd) const;
  // A zeroed File (its number set), or null when there are too many.
  File* allocate();
  void insert(File& file);  // so that find() finds it
  void remove(File& file);
  void set_fd(int fd, const File& file);

  // Looks after files that nobody has open: the grace after the last close,
  // then sleep or burial. Returns when to look again (ns), 0: no need.
  uint64_t look_after(uint64_t now);
  // Nothing is served from it from now on, its lease is let go, and it is not
  // found any more; look_after() buries it.
  void condemn(File& file);
  // A dormant file whose folios may be believed under a new lease.
  static bool still_true(const File& file, const FileStamp& now);
  // Gives back a file that never became visible.
  void free(File& file);
  // Calls f for every file that holds a lease.
  template <class F>
  void for_each_leased(const F& f) const {
    for (uint32_t i = 0; i < used(); ++i) {
      File& candidate = at(i);
      if (candidate.readable()) f(candidate);
    }
  }
  // Buries sleeping files, the memory and number of each being wanted.
  bool bury_dormant();
  void close_descriptors(File& file);

 private:
  uint64_t look_after(File& file, uint64_t now);
  void fall_asleep(File& file, const FileStamp& stamp);
  bool bury(File& file);
  uint32_t used() const;
  File& at(uint32_t number) const;

  static constexpr uint32_t kBuckets = 4096;
  Engine* engine_ = nullptr;
  uint32_t* owner_ = nullptr;   // private descriptor -> file number + 1
  uint32_t* bucket_ = nullptr;  // number + 1, chained through File::chain
  uint32_t free_ = 0;           // likewise
};

}  // namespace racache
