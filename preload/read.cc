// SPDX-License-Identifier: MIT
// read(2) and its relatives.
//
// Each asks one question of the descriptor table; what is not tracked is the
// real call, cancellation point included. A call that the cache answers is one
// at its beginning, where nothing is held. read(2) of a file is not shortened
// or interrupted by ordinary signals, and neither is ours.
#include <pthread.h>
#include <sys/uio.h>

#include "core/hit.h"
#include "preload/hit.h"
#include "preload/real.h"
#include "preload/serve.h"
#include "preload/stream.h"

namespace racache::preload {

// Reads that are not ours.
namespace foreign {

template <auto* Real, class... Rest>
ssize_t call(int fd, Rest... rest) {
  before_foreign_read(fd);
  return (*Real)(fd, rest...);
}
constexpr auto read = call<&real::read, void*, size_t>;
constexpr auto pread = call<&real::pread, void*, size_t, off_t>;
constexpr auto readv = call<&real::readv, const iovec*, int>;
constexpr auto preadv = call<&real::preadv, const iovec*, int, off_t>;
constexpr auto preadv2 = call<&real::preadv2, const iovec*, int, off_t, int>;

}  // namespace foreign

namespace hook {

using serve::Buffers;
using serve::KernelUse;
using serve::kPass;

ssize_t read(int fd, void* buffer, size_t count) {
  if (RACACHE_LIKELY(!tracked(fd))) return foreign::read(fd, buffer, count);
  pthread_testcancel();
  const size_t hit = hit_next(fd, buffer, count);
  if (RACACHE_LIKELY(hit != 0)) return static_cast<ssize_t>(hit);
  if (!may_serve(fd)) return foreign::read(fd, buffer, count);
  KernelUse use;
  iovec storage;
  const long got =
      serve::read_next(fd, serve::one_buffer(buffer, count, storage), use);
  return got != kPass ? with_errno(got) : foreign::read(fd, buffer, count);
}

ssize_t pread(int fd, void* buffer, size_t count, off_t offset) {
  if (RACACHE_LIKELY(!tracked(fd)))
    return foreign::pread(fd, buffer, count, offset);
  pthread_testcancel();
  const size_t hit = hit_at(fd, buffer, count, offset);
  if (RACACHE_LIKELY(hit != 0)) return static_cast<ssize_t>(hit);
  if (!may_serve(fd)) return foreign::pread(fd, buffer, count, offset);
  iovec storage;
  const long got =
      serve::read_at(fd, serve::one_buffer(buffer, count, storage), offset);
  return got != kPass ? with_errno(got)
                      : foreign::pread(fd, buffer, count, offset);
}

ssize_t readv(int fd, const iovec* iov, int count) {
  if (RACACHE_LIKELY(!may_serve(fd))) return foreign::readv(fd, iov, count);
  pthread_testcancel();
  KernelUse use;
  const long got = serve::read_next(fd, serve::many_buffers(iov, count), use);
  return got != kPass ? with_errno(got) : foreign::readv(fd, iov, count);
}

ssize_t preadv(int fd, const iovec* iov, int count, off_t offset) {
  if (RACACHE_LIKELY(!may_serve(fd)))
    return foreign::preadv(fd, iov, count, offset);
  pthread_testcancel();
  const long got = serve::read_at(fd, serve::many_buffers(iov, count), offset);
  return got != kPass ? with_errno(got)
                      : foreign::preadv(fd, iov, count, offset);
}

// RWF_HIPRI asks for nothing that a cache would not do; every other flag is
// the kernel's business. Offset -1 is the file position.
ssize_t preadv2(int fd, const iovec* iov, int count, off_t offset, int flags) {
  if (RACACHE_LIKELY(!may_serve(fd)))
    return foreign::preadv2(fd, iov, count, offset, flags);
  pthread_testcancel();
  KernelUse use;
  Buffers to = serve::many_buffers(iov, count);
  if ((flags & ~RWF_HIPRI) != 0) to.iov = nullptr;
  const long got = offset == -1 ? serve::read_next(fd, to, use)
                                : serve::read_at(fd, to, offset);
  return got != kPass ? with_errno(got)
                      : foreign::preadv2(fd, iov, count, offset, flags);
}

// Fortify: more than the buffer holds is for libc, which ends the program.
ssize_t __read_chk(int fd, void* buffer, size_t count, size_t room) {
  if (RACACHE_UNLIKELY(count > room))
    return real::__read_chk(fd, buffer, count, room);
  return hook::read(fd, buffer, count);
}

ssize_t __pread_chk(int fd, void* buffer, size_t count, off_t offset,
                    size_t room) {
  if (RACACHE_UNLIKELY(count > room))
    return real::__pread_chk(fd, buffer, count, offset, room);
  return hook::pread(fd, buffer, count, offset);
}

}  // namespace hook

RACACHE_DEFINE_TWIN(__read, read)
RACACHE_DEFINE_TWIN(pread64, pread)
RACACHE_DEFINE_TWIN(__pread64, pread)
RACACHE_DEFINE_TWIN(preadv64, preadv)
RACACHE_DEFINE_TWIN(preadv64v2, preadv2)
RACACHE_DEFINE_TWIN(__pread64_chk, __pread_chk)

}  // namespace racache::preload
