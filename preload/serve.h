// SPDX-License-Identifier: MIT
// Reads and hints on tracked descriptors, whatever hook they came through.
//
// Answers are the kernel's: a value >= 0, or -errno, or kPass: the hook makes
// the real call. What the kernel would refuse, and whatever is unusual, is
// passed on, so that the kernel says what it says.
#pragma once

#include <sys/uio.h>

#include "preload/position.h"

namespace racache::preload::serve {

using position::KernelUse;
using position::kPass;

// Buffers of one request and the sum of their lengths, as the kernel would
// take them. Anything else has iov == nullptr.
struct Buffers {
  const iovec* iov;
  int count;
  size_t total;
};
inline constexpr size_t kMostBytes = 0x7ffff000;  // of one call; MAX_RW_COUNT

// One buffer; `storage` becomes its iovec.
Buffers one_buffer(void* buffer, size_t count, iovec& storage);
Buffers many_buffers(const iovec* iov, int count);

// pread and relatives.
RACACHE_HOT long read_at(int fd, const Buffers& to, off_t offset);
// read and readv: at the description's position, which moves. On kPass the
// caller's own call is covered by `use` until that is destroyed.
RACACHE_HOT long read_next(int fd, const Buffers& to, KernelUse& use);
// lseek likewise.
long seek(int fd, off_t offset, int whence, KernelUse& use);

// posix_fadvise(NORMAL, RANDOM, SEQUENTIAL, NOREUSE) after the kernel's own.
void advise(int fd, int advice);
// True when the cache has taken the hint: then the kernel must not read the
// range into its own cache as well.
[[nodiscard]] bool willneed(int fd, off_t offset, off_t length);
void dontneed(int fd, off_t offset, off_t length);

}  // namespace racache::preload::serve
