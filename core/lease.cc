// SPDX-License-Identifier: MIT
#include "core/lease.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <cerrno>

#include "core/sys.h"
#include "core/system_limits.h"
#include "core/text.h"

namespace racache::lease {
namespace {

// Absent from older headers; asked for by number, refused by older kernels.
#ifndef SYS_cachestat
constexpr long kCachestat = 451;
#else
constexpr long kCachestat = SYS_cachestat;
#endif
#ifndef STATX_DIOALIGN
#define STATX_DIOALIGN 0x2000U
#endif

struct CacheStat {
  uint64_t cached, dirty, writeback, evicted, recently_evicted;
};
struct CacheStatRange {
  uint64_t offset, length;
};

long fcntl_call(int fd, int command, long argument) {
  return sys::invoke(SYS_fcntl, fd, command, argument);
}

int64_t nanoseconds(const statx_timestamp& t) {
  return t.tv_sec * 1000000000 + t.tv_nsec;
}

bool same_inode(int fd, uint64_t device, uint64_t inode) {
  Facts facts;
  return facts_of(fd, &facts) && facts.regular && facts.device == device &&
         facts.inode == inode;
}

Reason reason_for_open(long error) {
  switch (-error) {
    case EINVAL:
      return Reason::kNoDirect;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return Reason::kBudget;
    default:
      return Reason::kReopen;
  }
}

long set_owner(int fd, int service_tid) {
  f_owner_ex owner{F_OWNER_TID, service_tid};
  return fcntl_call(fd, F_SETOWN_EX, reinterpret_cast<long>(&owner));
}

}  // namespace

Reason take(int fd, int service_tid) {
  if (sys::failed(set_owner(fd, service_tid))) return Reason::kNoLease;
  if (sys::failed(fcntl_call(fd, F_SETSIG, kSignal))) return Reason::kNoLease;
  const long ret = fcntl_call(fd, F_SETLEASE, F_RDLCK);
  if (!sys::failed(ret)) return Reason::kNone;
  switch (-ret) {
    case EAGAIN:
      return Reason::kWriter;
    case EACCES:
    case EPERM:
      return Reason::kNotOwner;
    case ENOMEM:
      return Reason::kBudget;
    default:
      return Reason::kNoLease;
  }
}

void renew_owner(int fd, int service_tid) { set_owner(fd, service_tid); }

void release(int fd) { fcntl_call(fd, F_SETLEASE, F_UNLCK); }

uint64_t break_time_ns() {
  constexpr uint64_t kSecondNs = 1'000'000'000, kDay = 24 * 60 * 60;
  uint64_t seconds = 1;
  if (!limits::read_number("/proc/sys/fs/lease-break-time", seconds)) {
    return kSecondNs;
  }
  // 0: for as long as it takes.
  return (seconds == 0 || seconds > kDay ? kDay : seconds) * kSecondNs;
}

bool breaking(int fd) { return fcntl_call(fd, F_GETLEASE, 0) != F_RDLCK; }

Opened reopen_direct(int tid, int fd, uint64_t device, uint64_t inode) {
  TextBuffer<64> path;
  path << "/proc/self/task/" << tid << "/fd/" << fd;
  const long opened = sys::invoke(SYS_openat, AT_FDCWD, path.c_str(),
                                  O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (sys::failed(opened)) return {-1, reason_for_open(opened)};
  if (!same_inode(static_cast<int>(opened), device, inode)) {
    sys::invoke(SYS_close, opened);
    return {-1, Reason::kChanged};
  }
  return {static_cast<int>(opened), Reason::kNone};
}

int reopen_buffered(int direct_fd, uint64_t device, uint64_t inode) {
  TextBuffer<64> path;
  path << "/proc/thread-self/fd/" << direct_fd;
  const long opened =
      sys::invoke(SYS_openat, AT_FDCWD, path.c_str(), O_RDONLY | O_CLOEXEC);
  if (sys::failed(opened)) return -1;
  if (same_inode(static_cast<int>(opened), device, inode)) {
    return static_cast<int>(opened);
  }
  sys::invoke(SYS_close, opened);
  return -1;
}

bool facts_of(int fd, Facts* facts) {
  struct statx s {};
  const long ret =
      sys::invoke(SYS_statx, fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC,
                  STATX_BASIC_STATS | STATX_BTIME | STATX_DIOALIGN, &s);
  if (sys::failed(ret)) return false;
  facts->device = makedev(s.stx_dev_major, s.stx_dev_minor);
  facts->inode = s.stx_ino;
  facts->links = s.stx_nlink;
  facts->regular = S_ISREG(s.stx_mode);
  facts->stamp.size = s.stx_size;
  facts->stamp.ctime_ns = nanoseconds(s.stx_ctime);
  facts->stamp.birth_ns =
      (s.stx_mask & STATX_BTIME) != 0 ? nanoseconds(s.stx_btime) : 0;
  // stx_dio_offset_align follows stx_dio_mem_align at byte 0x9c.
  uint32_t align = 0;
  if ((s.stx_mask & STATX_DIOALIGN) != 0) {
    __builtin_memcpy(&align, reinterpret_cast<const char*>(&s) + 0x9c, 4);
    if (align == 0) align = ~0u;  // the file system says: no direct I/O
  }
  facts->direct_align = align;
  return true;
}

bool keeps_ctime(int fd) {
  constexpr unsigned long kXfs = 0x58465342, kBtrfs = 0x9123683e, kExt = 0xef53,
                          kF2fs = 0xf2f52010;
  struct statfs s;
  if (sys::failed(sys::invoke(SYS_fstatfs, fd, &s))) return false;
  const unsigned long magic =
      static_cast<unsigned long>(s.f_type) & 0xffffffffu;
  return magic == kXfs || magic == kBtrfs || magic == kExt || magic == kF2fs;
}

int64_t cached_pages(int fd, uint64_t offset, uint64_t length) {
  CacheStatRange range{offset, length};
  CacheStat stat{};
  const long ret = sys::invoke(kCachestat, fd, &range, &stat, 0);
  return sys::failed(ret) ? -1 : static_cast<int64_t>(stat.cached);
}

// The kernel's pages are the CPU's, of which arm64 has some of 64 KiB.
bool all_cached(int fd, uint64_t offset, uint64_t length) {
  const int64_t cached = cached_pages(fd, offset, length);
  const uint64_t wanted = pages_touched(offset, length, sys::page_size());
  return cached >= 0 && static_cast<uint64_t>(cached) >= wanted;
}

}  // namespace racache::lease
