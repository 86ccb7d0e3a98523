// SPDX-License-Identifier: MIT
// The order of things, which everything else relies on:
//
//   open   kernel's open, allocate, link           readers see it complete
//   close  unlink, wait while moving, drop, kernel's close
//   dup    kernel's dup, reference, link
//   dup2   write back what `new` had, unlink it, kernel's dup2, link
//
// The wait in close is one half of a pair: begin_move() in position.cc makes
// the position `moving` and then looks at the slot; here the slot is emptied
// and then the position looked at. Both are sequentially consistent.
#include "preload/fd_table.h"

#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <cerrno>

#include "core/epoch.h"
#include "core/lock.h"
#include "preload/adoption.h"
#include "preload/init.h"
#include "preload/open_file.h"
#include "preload/position.h"

namespace racache::preload {

namespace table {

constinit std::atomic<uint64_t>* slots = nullptr;
constinit std::atomic<uint32_t> limit{0};

namespace {

constexpr uint32_t kMostSlots = 1 << 20;
constexpr uint32_t kFewestSlots = 1 << 10;

constinit std::atomic<uint32_t> above{0};  // numbers from here on are unused
constinit std::atomic<uint32_t> owner_process{0};
constinit std::atomic<int> owner_pid{0};
// Children that share our memory, but not our numbers, have become possible.
// Set before the first of them is made, and then for good.
constinit std::atomic<bool> strangers{false};
constinit std::atomic<uint32_t> maker{0};    // process number; 0: nobody
constinit std::atomic<bool> refused{false};  // no memory: for good

// A process that bounds its address space, or its data, has other plans for it:
// we take a sixty-fourth at most.
uint32_t most_slots() {
  constexpr uint64_t kPerSlot = sizeof(OpenFile) + sizeof(uint64_t);
  uint64_t space = RLIM_INFINITY;
  for (int resource : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit limited{RLIM_INFINITY, RLIM_INFINITY};
    sys::invoke(SYS_prlimit64, 0, resource, 0L, &limited);
    if (limited.rlim_cur < space) space = limited.rlim_cur;
  }
  uint32_t count = kMostSlots;
  while (count > kFewestSlots && count * kPerSlot > space / 64) count /= 2;
  return count;
}

void* map_slots(uint32_t count) {
  const size_t size = count * sizeof(uint64_t);
  const long mapped =
      sys::invoke(SYS_mmap, 0L, size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L);
  if (sys::failed(mapped)) return nullptr;
  sys::invoke(SYS_madvise, mapped, size, MADV_NOHUGEPAGE);
  return reinterpret_cast<void*>(mapped);
}

bool make_with(uint32_t count) {
  void* memory = map_slots(count);
  if (memory == nullptr) return false;
  if (!pool::init(count)) {
    sys::invoke(SYS_munmap, memory, count * sizeof(uint64_t));
    return false;
  }
  slots = static_cast<std::atomic<uint64_t>*>(memory);
  limit.store(count, std::memory_order_release);
  return true;
}

bool make_some() {
  if (limit.load(std::memory_order_acquire) != 0) return true;
  if (!epoch::init()) return false;
  for (uint32_t n = most_slots(); n >= kFewestSlots; n /= 4) {
    if (make_with(n)) return true;
  }
  return false;
}

// Once; forked children inherit a copy. One thread does it, another's open goes
// untracked meanwhile. A maker inherited from before a fork is nobody.
bool make() {
  if (RACACHE_LIKELY(limit.load(std::memory_order_acquire) != 0)) return true;
  SignalGuard signals;  // so that the maker is never this thread, interrupted
  const uint32_t me = engine::process_number();
  for (;;) {
    if (limit.load(std::memory_order_acquire) != 0) return true;
    if (refused.load(std::memory_order_acquire)) return false;
    // A number of another process is a maker that a fork left behind.
    uint32_t seen = maker.load(std::memory_order_relaxed);
    if (seen != me && maker.compare_exchange_strong(seen, me)) break;
    sys::invoke(SYS_sched_yield);
  }
  const bool made = make_some();
  if (!made) refused.store(true, std::memory_order_release);
  maker.store(0, std::memory_order_release);
  return made;
}

// In a forked child the memory is its own, whatever pid stands there.
void refresh_owner() {
  const uint32_t process = engine::process_number();
  if (owner_process.load(std::memory_order_acquire) == process) return;
  owner_pid.store(sys::getpid(), std::memory_order_relaxed);
  owner_process.store(process, std::memory_order_release);
}

void raise_above(uint32_t number) {
  uint32_t seen = above.load(std::memory_order_relaxed);
  while (seen <= number && !above.compare_exchange_weak(seen, number + 1)) {
  }
}

// The word of an empty slot after / a slot linked after `word`.
constexpr uint64_t next_generation(uint64_t word) {
  return (word & ~uint64_t{0xffffffff}) + kGenerationStep;
}

// Empties the slot; returns what was there, its reference now the caller's.
uint64_t unlink(int fd) {
  uint64_t word = slots[fd].load(std::memory_order_relaxed);
  while (number_of(word) != 0) {
    if (slots[fd].compare_exchange_weak(word, next_generation(word))) break;
  }
  return word;
}

void link(int fd, uint32_t number) {
  raise_above(static_cast<uint32_t>(fd));
  uint64_t word = slots[fd].load(std::memory_order_relaxed);
  for (;;) {
    if (number_of(word) != 0) {  // closed behind our back, and opened anew
      fd_closing(fd);
      word = slots[fd].load(std::memory_order_relaxed);
    } else if (slots[fd].compare_exchange_weak(
                   word, next_generation(word) | number)) {
      return;
    }
  }
}

void mark_contested(int fd) {
  uint64_t word = slots[fd].load(std::memory_order_relaxed);
  while (number_of(word) != 0 &&
         !slots[fd].compare_exchange_weak(word, word | kContested)) {
  }
}

void forget(int fd) {
  const uint64_t word = unlink(fd);
  if (number_of(word) == 0) return;
  OpenFile& open = open_file(number_of(word));
  position::wait_until_still(open);
  pool::drop_slot(open);
}

bool worth_tracking(int flags) {
  constexpr int kNot = O_DIRECT | O_PATH | O_DIRECTORY;
  return (flags & O_ACCMODE) == O_RDONLY && (flags & kNot) == 0;
}

// False too when the kernel does not answer (seccomp filters of containers).
bool same_description(int one_pid, int other_pid, int fd) {
  return sys::invoke(SYS_kcmp, one_pid, other_pid, KCMP_FILE, fd, fd) == 0;
}

// Whether a child would look in vain for the position of a contested number:
// where kcmp is not to be had, it takes the number for a stranger's.
bool unrecognizable(int fd) {
  if ((slot_word(fd) & kContested) == 0) return false;
  const int me = sys::getpid();
  return !same_description(me, me, fd);
}

bool inheritable(int fd) {
  const long flags = sys::invoke(SYS_fcntl, fd, F_GETFD);
  return !sys::failed(flags) && (flags & FD_CLOEXEC) == 0;
}

}  // namespace
}  // namespace table

bool in_own_process() {
  table::refresh_owner();
  if (!table::strangers.load(std::memory_order_relaxed)) return true;
  return sys::getpid() == table::owner_pid.load(std::memory_order_relaxed);
}

uint64_t contested_word(int fd, uint64_t word) {
  if (in_own_process()) return word;
  const int owner = table::owner_pid.load(std::memory_order_relaxed);
  return table::same_description(owner, sys::getpid(), fd) ? word : 0;
}

// libc's own streams read the standard numbers by calls that we do not see.
void share_if_standard(int fd) {
  if (fd <= 2) share_position(fd);
}

void fd_opened(int fd, int flags) {
  if (fd < 0 || state() != State::kReady) return;
  if (tracked(fd)) fd_closing(fd);
  if (!table::worth_tracking(flags) || !table::make()) return;
  if (static_cast<uint32_t>(fd) >= table::limit.load()) return;
  if (!in_own_process()) return;
  const uint32_t number = pool::allocate();
  if (number == 0) return;
  table::link(fd, number);
  share_if_standard(fd);
}

void fd_closing(int fd) {
  if (!tracked(fd)) return;
  if (in_own_process()) {
    table::forget(fd);
  } else {
    table::mark_contested(fd);
  }
}

void fd_range_closing(unsigned first, unsigned last) {
  const uint32_t above = table::above.load();
  for (uint32_t fd = first; fd < above && fd <= last; ++fd) {
    fd_closing(static_cast<int>(fd));
  }
}

void fd_replacing(int new_fd) {
  share_position(new_fd);
  fd_closing(new_fd);
}

void fd_duplicated(int old_fd, int new_fd) {
  if (old_fd == new_fd) return;
  if (tracked(new_fd)) fd_closing(new_fd);
  const uint64_t word = own_word(old_fd);
  if (word == 0 || static_cast<uint32_t>(new_fd) >= table::limit.load()) return;
  OpenFile& open = open_file(number_of(word));
  if (!in_own_process() || !pool::add_slot(open)) return;
  if (!same_slot(old_fd, word)) return pool::drop_slot(open);
  table::link(new_fd, number_of(word));
  share_if_standard(new_fd);
}

void share_position(int fd) {
  if (!tracked(fd)) return;
  Held held(fd);
  if (!held) return;
  if (stale(held->status.load())) adoption::renew(held);
  position::share(held);
}

// Who asks for the inheritable ones only is about to make or become a program,
// perhaps by vfork.
void fd_forget_threads() {
  const uint32_t above = table::above.load();
  for (uint32_t n = 0; n < above; ++n) {
    const int fd = static_cast<int>(n);
    if (!tracked(fd)) continue;
    pool::forget_threads(open_file(number_of(table::slots[n].load())));
  }
}

void share_positions(Share which) {
  table::refresh_owner();
  if (which == Share::kInheritable) table::strangers.store(true);
  const uint32_t above = table::above.load();
  for (uint32_t n = 0; n < above; ++n) {
    const int fd = static_cast<int>(n);
    if (!tracked(fd)) continue;
    if (which == Share::kAll || table::inheritable(fd) ||
        table::unrecognizable(fd)) {
      share_position(fd);
    }
  }
}

void share_positions_for_good() {
  position::stay_in_kernel();
  share_positions(Share::kAll);
}

void fd_forget_everything() {
  turn_off();
  share_positions(Share::kAll);
  fd_range_closing(0, ~0u);
}

}  // namespace racache::preload
