// SPDX-License-Identifier: MIT
// The open file description: what dup()ed descriptors share.
//
// Life. allocate() when an open hook succeeded; each slot of the table that
// names it is a reference, each slow call under way a pin. When both are gone
// the cached file is released and the memory is retired: used again only after
// a grace period (core/epoch.h), and never unmapped. So inside an epoch section
// a description found through a slot stays what it is; without a section, a pin
// keeps it.
//
// Stage (`status`), with the process it is true in. In a forked child every
// stage is stale, hence untried; nothing inherited is waited for.
//
//   untried  -> adopting            first read or hint; one thread does it
//   adopting -> cached              `file` is valid while `generation` is the
//                                   engine's and the file is readable
//            -> refused             for now: ask again at retry_at
//            -> kernels             for good; calls cost one look
//   untried  -> kernels             at a glance: too small, no regular file
//   cached   -> adopting -> refused the file was lost (a writer came)
//   refused  -> adopting            when it is time
//   any      -> kernels             O_DIRECT was set, the program took a lease
//
// Who made the stage `adopting` owns the plain members and has signals blocked;
// others wait on the low half of `status` as a futex.
//
// `file` is replaced only when the owner of `adopting` holds the only pin, so a
// pin taken before looking at the stage keeps the file as well as the
// description. Readers in a section are covered by the file's own grace period.
//
// Position (`position`), see position.h:
//   kernel(n) in the kernel, has never escaped; n kernel calls under way
//   private   here: a value >= 0. Only in stages cached and adopting
//   moving    one thread, signals blocked, calls lseek; others wait
//   shared    in the kernel, for good
//
// Atomics are sequentially consistent where nothing is said: these are cold.
#pragma once

#include <atomic>

#include "core/cache.h"
#include "preload/fd_table.h"

namespace racache::preload {

enum class Stage : uint8_t { kUntried, kAdopting, kCached, kRefused, kKernels };

// The process half, waiters for the end of `adopting`, a reason, a stage.
inline constexpr uint64_t kStatusWaiters = uint64_t{1} << 16;
constexpr uint64_t status_word(uint32_t process, Stage stage,
                               Reason reason = Reason::kNone) {
  return uint64_t{process} << 32 | uint64_t{static_cast<uint8_t>(reason)} << 8 |
         static_cast<uint8_t>(stage);
}
constexpr Stage stage_of(uint64_t status) {
  return static_cast<Stage>(status & 0xff);
}
constexpr Reason reason_of(uint64_t status) {
  return static_cast<Reason>(status >> 8 & 0xff);
}
constexpr uint32_t process_of(uint64_t status) {
  return static_cast<uint32_t>(status >> 32);
}
inline uint64_t status_now(Stage stage, Reason reason = Reason::kNone) {
  return status_word(engine::process_number(), stage, reason);
}
inline bool stale(uint64_t status) {
  return process_of(status) != engine::process_number();
}

// What posix_fadvise left on the description, to be told to the cache when the
// file is adopted.
struct Advice {
  static constexpr uint8_t kSequential = 1, kRandom = 2, kNoReuse = 4;
};

struct alignas(64) OpenFile {
  std::atomic<uint64_t> status;
  std::atomic<int64_t> position;
  std::atomic<uint64_t> references;  // pins << 32 | slots; 0: free
  std::atomic<File*> file;           // relaxed: published by `status`
  std::atomic<uint32_t> generation;  // of the engine that `file` belongs to
  uint32_t incarnation;              // counts the uses of this memory
  std::atomic<uint32_t> next;        // in the lists of free ones
  std::atomic<uint8_t> advice;
  std::atomic<bool> escape_counted;

  alignas(64) OpenStream stream;
  std::atomic<uint64_t> retry_at_ms;
  uint64_t adopted_at_ms;
  uint32_t backoff_ms;
  uint32_t retired_process;  // of the process in which `retired` means anything
  uint64_t retired;          // epoch stamp of a list of free ones
};

inline constexpr uint64_t kPin = uint64_t{1} << 32;
constexpr uint32_t pins_of(uint64_t references) {
  return static_cast<uint32_t>(references >> 32);
}

#pragma GCC visibility push(hidden)
namespace pool {
extern OpenFile* files;  // set before table::limit
}
#pragma GCC visibility pop

inline OpenFile& open_file(uint32_t number) { return pool::files[number]; }

// Whether a read of this number may be ours to answer: false at the price of
// one more look than tracked(), for the many files that are the kernel's for
// good, whose position is there too.
RACACHE_HOT inline bool may_serve(int fd) {
  const uint32_t number = number_of(slot_word(fd));
  if (RACACHE_LIKELY(number == 0)) return false;
  // Relaxed: nothing is read on the strength of it.
  const uint64_t status =
      open_file(number).status.load(std::memory_order_relaxed);
  return stage_of(status) != Stage::kKernels || stale(status);
}

namespace pool {

// Room for `count` descriptions, lazily touched. False: no memory for it.
[[nodiscard]] bool init(uint32_t count);
// One with a single reference, for the slot it is going to; 0: none left.
[[nodiscard]] uint32_t allocate();
// Both fail on a description that has no reference any more.
[[nodiscard]] bool add_slot(OpenFile& open);
[[nodiscard]] bool pin(OpenFile& open);
void drop_slot(OpenFile& open);
void unpin(OpenFile& open);
// In a forked child: pins of threads that stayed behind, and their lock.
void forget_threads(OpenFile& open);

}  // namespace pool

// A pinned description and the slot through which it was found.
class Held {
 public:
  Held() = default;
  explicit Held(int fd);  // empty when the number is not tracked
  ~Held() {
    if (open_ != nullptr) pool::unpin(*open_);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  // What an empty one is to hold: found through the slot in the section that
  // the caller is in.
  void take(int fd, uint64_t word) {
    fd_ = fd;
    word_ = word;
    OpenFile& open = open_file(number_of(word));
    if (pool::pin(open)) open_ = &open;
  }

  explicit operator bool() const { return open_ != nullptr; }
  OpenFile& operator*() const { return *open_; }
  OpenFile* operator->() const { return open_; }
  int fd() const { return fd_; }
  // The number is still open on this description.
  bool here() const { return same_slot(fd_, word_); }

 private:
  OpenFile* open_ = nullptr;
  int fd_ = -1;
  uint64_t word_ = 0;
};

}  // namespace racache::preload
