// SPDX-License-Identifier: MIT
// Read leases (fcntl F_SETLEASE F_RDLCK) on the service thread's private
// descriptors. While one is held nobody has the file open for writing or has a
// writable shared mapping of it; whoever wants to is stopped until we let go.
#pragma once

#include "core/base.h"
#include "core/counters.h"
#include "core/file.h"

namespace racache::lease {

// The realtime signal by which the kernel tells of a break. Directed at the
// service thread, the only one that waits for it.
inline constexpr int kSignal = 63;

// Takes the lease. The order owner, signal, lease matters each time: F_UNLCK
// clears owner and signal, and a lease without them sends plain SIGIO to the
// process, which kills it. kNone on success.
[[nodiscard]] Reason take(int fd, int service_tid);
void release(int fd);
// A break's signal is sent with the ids that the owner had when it was set; as
// others, it would not arrive. The lease stays.
void renew_owner(int fd, int service_tid);
// How long the kernel lets a writer wait before it takes the lease away, by
// /proc/sys/fs/lease-break-time. Where that cannot be read, its least value.
[[nodiscard]] uint64_t break_time_ns();
// A writer is waiting for us to let go.
[[nodiscard]] bool breaking(int fd);

struct Opened {
  int fd;  // -1: refused
  Reason reason;
};
// Opens what /proc/self/task/TID/fd/N names, O_DIRECT, in the calling thread's
// descriptor table, and checks that it is that inode.
[[nodiscard]] Opened reopen_direct(int tid, int fd, uint64_t device,
                                   uint64_t inode);
// A second, buffered descriptor of the same file; -1 when it cannot be had.
[[nodiscard]] int reopen_buffered(int direct_fd, uint64_t device,
                                  uint64_t inode);

struct Facts {
  uint64_t device, inode;
  uint32_t links;
  bool regular;
  FileStamp stamp;
  uint32_t direct_align;  // 0 unknown
};
// statx(2) on a descriptor; false when it fails.
[[nodiscard]] bool facts_of(int fd, Facts* facts);

// The file system moves ctime at every change and lets nobody set it, so an
// equal ctime means equal bytes. (FAT, for one, has only a settable mtime.)
[[nodiscard]] bool keeps_ctime(int fd);

// Pages (of the system's size) of [offset, offset + length), length 0 is to the
// end, that the kernel's page cache holds; -1 when this kernel cannot say (no
// cachestat(2)).
[[nodiscard]] int64_t cached_pages(int fd, uint64_t offset, uint64_t length);
// Whether it holds all of [offset, offset + length), length > 0.
[[nodiscard]] bool all_cached(int fd, uint64_t offset, uint64_t length);

}  // namespace racache::lease
