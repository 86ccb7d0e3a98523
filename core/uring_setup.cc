// SPDX-License-Identifier: MIT
// The ring's birth, its descriptor and its table of files.
//
// liburing makes and maps the ring; it neither allocates nor touches errno on
// that path. Its registration helpers are not used: some of them raise
// RLIMIT_NOFILE, which is the application's.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <cerrno>

#include "core/backend_uring.h"
#include "core/uring_ring.h"

namespace racache {
namespace {

// A descriptor's number costs: the kernel copies the table up to the highest
// one at each fork (5 ns an entry). 4095 is out of everybody's way and costs
// 10 us; a million would cost 5 ms.
constexpr uint64_t kHighestFd = 4096;

// liburing since 2.5 may make rings without the index array (bit 16).
constexpr unsigned kNoSqArray = 1u << 16;

uint64_t descriptor_limit() {
  rlimit limit;
  if (sys::failed(sys::invoke(SYS_prlimit64, 0, RLIMIT_NOFILE, 0L, &limit))) {
    return 1024;
  }
  return limit.rlim_cur;
}

// A duplicate with as high a number as can be had, or -errno.
int duplicate_high(int fd) {
  uint64_t limit = descriptor_limit();
  if (limit > kHighestFd) limit = kHighestFd;
  long ret = -EMFILE;
  for (uint64_t below = 1; below < limit; below *= 2) {
    ret = sys::invoke(SYS_fcntl, fd, F_DUPFD_CLOEXEC, limit - below);
    if (!sys::failed(ret)) break;
  }
  return static_cast<int>(ret);
}

void close_raw(int fd) { sys::invoke(SYS_close, fd); }

long register_call(int fd, unsigned opcode, const void* arg, unsigned count) {
  return sys::invoke(SYS_io_uring_register, fd, opcode, arg, count);
}

}  // namespace

int Ring::setup(const UringOptions& options) {
  int err = create(options);
  if (err < 0) return err;
  err = register_files(options.slots);
  if (err < 0) {
    teardown();
    return err;
  }
  const int high = duplicate_high(ring_.ring_fd);
  if (high > ring_.ring_fd) {
    close_raw(ring_.ring_fd);
    ring_.ring_fd = high;
  } else if (high >= 0) {
    close_raw(high);
  }
  service_fd_ = ring_.ring_fd;
  fd_.store(ring_.ring_fd, std::memory_order_release);
  return 0;
}

// With COOP_TASKRUN a completion does not interrupt the thread that submitted
// the read, which costs as much as the read where cores are virtual. It becomes
// visible when that thread next passes through the kernel; who waits for
// another's read prods it (prod_submitters). Older kernels interrupt.
int Ring::create(const UringOptions& options) {
  constexpr unsigned kCooperative =
      IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
  const int err = create_with(options, kCooperative);
  cooperative_ = err == 0;
  return err == -EINVAL ? create_with(options, 0) : err;
}

int Ring::create_with(const UringOptions& options, unsigned flags) {
  io_uring_params params = {};
  params.flags = IORING_SETUP_CLAMP | IORING_SETUP_CQSIZE | flags;
  params.cq_entries = options.entries * 4;
  const int err = io_uring_queue_init_params(options.entries, &ring_, &params);
  if (err < 0) return err;
  constexpr unsigned kNeeded = IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG;
  if ((params.features & kNeeded) != kNeeded) {
    teardown();
    return -ENOSYS;
  }
  if ((params.flags & kNoSqArray) == 0) {
    for (unsigned i = 0; i < ring_.sq.ring_entries; ++i) ring_.sq.array[i] = i;
  }
  io_uring_ring_dontfork(&ring_);
  return 0;
}

void Ring::teardown() {
  const int fd = fd_.load(std::memory_order_relaxed);
  if (fd >= 0) ring_.ring_fd = ring_.enter_ring_fd = fd;
  // Lost: the number is not ours to close any more, only the memory is.
  if (lost()) ring_.ring_fd = ring_.enter_ring_fd = -1;
  io_uring_queue_exit(&ring_);
}

// Without its table the ring holds no file, however long its workers or reads
// in flight keep the ring itself.
void Ring::close() {
  if (lost()) return;
  const int fd = fd_.load(std::memory_order_acquire);
  register_call(fd, IORING_UNREGISTER_FILES, nullptr, 0);
  lose();
  while (submitters_.load(std::memory_order_seq_cst) != 0) {
    sys::invoke(SYS_sched_yield);
  }
  close_raw(fd);
}

// A table of empty slots, as large as wanted and permitted. The kernel refuses
// one that is larger than RLIMIT_NOFILE.
int Ring::register_files(unsigned want) {
  const size_t bytes = kMaxSlots * sizeof(int);
  const long mapped = sys::invoke(SYS_mmap, 0L, bytes, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
  if (sys::failed(mapped)) return static_cast<int>(mapped);
  int* none = reinterpret_cast<int*>(mapped);
  for (unsigned i = 0; i < kMaxSlots; ++i) none[i] = -1;
  const uint64_t limit = descriptor_limit();
  if (want > kMaxSlots) want = kMaxSlots;
  if (want > limit) want = static_cast<unsigned>(limit);
  long ret = -EMFILE;
  for (slots_ = want; slots_ > 0; slots_ /= 2) {
    ret = register_call(ring_.ring_fd, IORING_REGISTER_FILES, none, slots_);
    if (ret != -EMFILE && ret != -ENOMEM) break;
  }
  sys::invoke(SYS_munmap, mapped, bytes);
  return static_cast<int>(ret);
}

int Ring::update_file(unsigned slot, int fd) {
  io_uring_files_update update = {};
  update.offset = slot;
  update.fds = reinterpret_cast<uint64_t>(&fd);
  const long ret =
      register_call(service_fd_, IORING_REGISTER_FILES_UPDATE, &update, 1);
  return ret == 1 ? 0 : ret < 0 ? static_cast<int>(ret) : -EIO;
}

int Ring::attach(int fd) {
  unsigned slot = 0;
  while (slot < slots_ && ~slot_used_[slot / 64] == 0) slot += 64;
  if (slot < slots_) slot += trailing_zeros(~slot_used_[slot / 64]);
  if (slot >= slots_) return -ENFILE;
  const int err = update_file(slot, fd);
  if (err < 0) return err;
  slot_used_[slot / 64] |= uint64_t{1} << (slot % 64);
  return static_cast<int>(slot);
}

void Ring::detach(int slot) {
  const unsigned at = static_cast<unsigned>(slot);
  update_file(at, -1);
  slot_used_[at / 64] &= ~(uint64_t{1} << (at % 64));
}

bool Ring::move_fd() {
  int old = fd_.load(std::memory_order_acquire);
  const int fresh = lost() ? -EBADF : duplicate_high(old);
  if (fresh < 0) return false;
  // Release: who fails to enter by the old number finds the new one.
  if (fd_.compare_exchange_strong(old, fresh, std::memory_order_acq_rel)) {
    close_raw(old);
  } else {
    close_raw(fresh);
  }
  return true;
}

}  // namespace racache
