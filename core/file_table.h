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

  // Files that nobody has open are looked after: the grace after the last
  // close, then sleep or burial. The first takes a list of files that have been
  // reported, the second goes through those whose time has come. Both return
  // when to look again (ns), 0: no need.
  uint64_t look_after_reported(File* first, uint64_t now);
  uint64_t look_after(uint64_t now);
  bool watching() const { return lists_[kWatched].first != 0; }
  // A sleeping file was leased anew.
  void awake(File& file) { enlist(file, kNone); }
  // Numbers or slots have run out: files that nobody has open give theirs back
  // though their grace is not over. False when there are none.
  bool make_room();
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
  // Buries sleeping files, those first that have slept longest, the memory and
  // number of each being wanted.
  bool bury_dormant();
  void close_descriptors(File& file);
  // Whether a descriptor of ours is open on that file.
  [[nodiscard]] bool holds(uint64_t device, uint64_t inode) const;

 private:
  // Files that need looking after, those that sleep, those that are broken and
  // still in use; oldest first. A file is in one list at most.
  struct List {
    uint32_t first, last;  // number + 1
  };
  enum ListName : uint8_t { kNone, kWatched, kAsleep, kCondemned, kLists };

  void enlist(File& file, ListName list);
  bool any_open(ListName list, uint64_t device, uint64_t inode) const;
  uint64_t look_after(File& file, uint64_t now, uint64_t grace);
  uint64_t look_after_quiet(File& file, uint64_t now, uint64_t grace);
  void fall_asleep(File& file, const FileStamp& stamp);
  bool bury(File& file);
  uint32_t used() const;
  File& at(uint32_t number) const;

  static constexpr uint32_t kBuckets = 4096;
  Engine* engine_ = nullptr;
  uint32_t* owner_ = nullptr;   // private descriptor -> file number + 1
  uint32_t* bucket_ = nullptr;  // number + 1, chained through File::chain
  uint32_t free_ = 0;           // likewise
  List lists_[kLists] = {};
};

}  // namespace racache
