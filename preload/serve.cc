// SPDX-License-Identifier: MIT
// Each read has a fast half, inside an epoch section, without lock, pin or
// system call, and a slow half that pins the description and may adopt, wait,
// and finish by the kernel's pread.
#include "preload/serve.h"

#include <fcntl.h>
#include <cerrno>
#include <climits>

#include "core/engine.h"
#include "core/epoch.h"
#include "preload/adoption.h"
#include "preload/hit.h"

namespace racache::preload::serve {
namespace {

using position::Claim;

// Beyond these bounds there is no memory of the program's; what else is not
// writable shows when it is written.
inline bool plausible(const void* at, size_t count) {
  const uint64_t from = reinterpret_cast<uint64_t>(at);
  return from >= kPageSize && from < plain::kUserEnd &&
         count < plain::kUserEnd - from;
}

// Whether a buffer holds part of the array that lists it, which the kernel
// copies before it fills the buffers.
inline bool overlap(const iovec* iov, int count, const iovec& buffer) {
  const auto array = reinterpret_cast<uint64_t>(iov);
  const auto from = reinterpret_cast<uint64_t>(buffer.iov_base);
  const uint64_t array_end =
      array + static_cast<uint64_t>(count) * sizeof(iovec);
  return from < array_end && array < from + buffer.iov_len;
}

// A cached description as seen inside a section, which keeps all of it.
struct View {
  OpenFile* open;
  File* file;  // null: not on the fast path
  uint64_t word;
};
RACACHE_HOT inline View view_of(int fd) {
  const uint64_t word = own_word(fd);
  if (word == 0) return {nullptr, nullptr, 0};
  OpenFile& open = open_file(number_of(word));
  // Acquire: pairs with the adopter's publication of file and generation. The
  // generation is of one process, so it answers for the status' process too.
  const uint64_t status = open.status.load(std::memory_order_acquire);
  if (stage_of(status) != Stage::kCached ||
      open.generation.load(std::memory_order_relaxed) != engine::generation()) {
    return {&open, nullptr, word};
  }
  // Null when the last descriptor was closed since the word was read.
  File* file = open.file.load(std::memory_order_relaxed);
  if (file == nullptr || !cache::readable(*file)) return {&open, nullptr, word};
  return {&open, file, word};
}

// A read that has left the fast half: how far it came, and what it needs.
struct Unfinished {
  Held held;  // empty: start from the slot
  Claim claim{false, 0, 0};
  size_t done = 0;
};

// [done, total) at `offset` by the kernel, buffer by buffer. Raw: with a pin
// in hand this must not be a cancellation point.
long read_by_kernel(int fd, const Buffers& to, uint64_t offset, size_t done,
                    size_t total) {
  size_t before = 0;
  for (int i = 0; i < to.count && done < total; ++i) {
    const size_t end = before + to.iov[i].iov_len;
    while (done < end && done < total) {
      const size_t want = (end < total ? end : total) - done;
      char* at = static_cast<char*>(to.iov[i].iov_base) + (done - before);
      const long got = sys::invoke(SYS_pread64, fd, at, want, offset + done);
      if (got <= 0) return got < 0 && done == 0 ? got : static_cast<long>(done);
      done += static_cast<size_t>(got);
      if (static_cast<size_t>(got) < want) return static_cast<long>(done);
    }
    before = end;
  }
  return static_cast<long>(done);
}

// When the number was closed under us it may be another file's: what the kernel
// gave does not count.
long still_right(const Held& held, long got, size_t done) {
  if (RACACHE_LIKELY(held.here())) return got;
  return done != 0 ? static_cast<long>(done) : kPass;
}

// The slow half of a read of [offset, offset + total) of which `done` is here.
long finish(const Held& held, File& file, const Buffers& to, uint64_t offset,
            size_t total, size_t done) {
  if (!adoption::on_alternate_stack()) {
    const cache::ReadResult result = cache::read(
        file, held->stream, to.iov, to.count, offset, held.fd(), done);
    if (result.complete) return static_cast<long>(result.done);
    done = result.done;
  }
  const long got = read_by_kernel(held.fd(), to, offset, done, total);
  return still_right(held, got, done);
}

// As far as the cache goes, then the kernel.
long finish_with(const Held& held, File* file, const Buffers& to,
                 uint64_t offset, size_t total, size_t done) {
  if (file != nullptr) return finish(held, *file, to, offset, total, done);
  const long got = read_by_kernel(held.fd(), to, offset, done, total);
  return still_right(held, got, done);
}

RACACHE_COLD long read_at_slow(int fd, const Buffers& to, uint64_t offset,
                               Unfinished& so_far) {
  if (so_far.held) {
    return finish_with(so_far.held, adoption::look(so_far.held), to, offset,
                       to.total, so_far.done);
  }
  Held held(fd);
  if (!held) return kPass;
  File* file = adoption::obtain(held);
  if (file == nullptr) return kPass;
  return finish(held, *file, to, offset, to.total, 0);
}

// The claimed stretch, and the position put right afterwards.
long read_claimed(const Held& held, File* file, const Buffers& to,
                  const Claim& claim, size_t done) {
  const long got = finish_with(held, file, to, claim.at, claim.count, done);
  position::settle(*held, claim, got > 0 ? static_cast<size_t>(got) : 0);
  return got;
}

// Whether the caller's own call may move the position: it is in the kernel, and
// stays there until `use` is over. A cached file whose position has escaped is
// counted once a description.
bool leave_to_kernel(const Held& held, bool cached, KernelUse& use) {
  if (!use.enter(*held)) return false;
  if (cached && position::is_shared(held->position.load()) &&
      !held->escape_counted.exchange(true)) {
    engine::count_refusal(Reason::kEscaped);
  }
  return true;
}

// The position may be moving, or come back between two looks: look again.
long read_next_anew(int fd, const Buffers& to, KernelUse& use) {
  Held held(fd);
  while (held && held.here()) {
    File* file = adoption::obtain(held);
    if (file != nullptr) {
      position::make_private_if_idle(held);
      const Claim claim = position::claim(*held, to.total, cache::size(*file));
      if (claim.ok) return read_claimed(held, file, to, claim, 0);
    }
    if (leave_to_kernel(held, file != nullptr, use)) break;
    position::wait_while_moving(*held);
  }
  return kPass;
}

RACACHE_COLD long read_next_slow(int fd, const Buffers& to, KernelUse& use,
                                 Unfinished& so_far) {
  if (!so_far.claim.ok) return read_next_anew(fd, to, use);
  // Claimed, but closed since: the description is nobody's any more.
  if (!so_far.held) {
    return so_far.done != 0 ? static_cast<long>(so_far.done) : kPass;
  }
  return read_claimed(so_far.held, adoption::look(so_far.held), to,
                      so_far.claim, so_far.done);
}

}  // namespace

Buffers one_buffer(void* buffer, size_t count, iovec& storage) {
  storage = {buffer, count < kMostBytes ? count : kMostBytes};
  if (count > SSIZE_MAX || (count != 0 && !plausible(buffer, count))) {
    return {nullptr, 0, 0};
  }
  return {&storage, 1, storage.iov_len};
}

Buffers many_buffers(const iovec* iov, int count) {
  if (count < 0 || count > IOV_MAX) return {nullptr, 0, 0};
  if (count != 0 && !plausible(iov, 0)) return {nullptr, 0, 0};
  size_t total = 0;
  for (int i = 0; i < count; ++i) {
    const size_t length = iov[i].iov_len;
    if (length == 0) continue;
    if (length > kMostBytes - total) return {nullptr, 0, 0};
    if (!plausible(iov[i].iov_base, length)) return {nullptr, 0, 0};
    if (overlap(iov, count, iov[i])) return {nullptr, 0, 0};
    total += length;
  }
  return {iov, count, total};
}

long read_at(int fd, const Buffers& to, off_t offset) {
  if (RACACHE_UNLIKELY(to.iov == nullptr || offset < 0 ||
                       offset > INT64_MAX - static_cast<off_t>(to.total))) {
    return kPass;
  }
  const uint64_t at = static_cast<uint64_t>(offset);
  Unfinished so_far;
  if (ThreadSlot* thread = epoch::self()) {
    epoch::Section section(*thread);
    const View view = view_of(fd);
    if (view.file != nullptr) {
      const cache::ReadResult result =
          cache::read_hit(*view.file, view.open->stream, to.iov, to.count, at);
      if (RACACHE_LIKELY(result.complete))
        return static_cast<long>(result.done);
      so_far.held.take(fd, view.word);
      so_far.done = result.done;
    }
  }
  return read_at_slow(fd, to, at, so_far);
}

long read_next(int fd, const Buffers& to, KernelUse& use) {
  if (RACACHE_UNLIKELY(to.iov == nullptr)) {
    share_position(fd);  // whatever comes, the kernel does it
    return kPass;
  }
  Unfinished so_far;
  if (ThreadSlot* thread = epoch::self()) {
    epoch::Section section(*thread);
    const View view = view_of(fd);
    if (view.file != nullptr) {
      so_far.claim =
          position::claim(*view.open, to.total, cache::size(*view.file));
    }
    if (so_far.claim.ok) {
      const cache::ReadResult result = cache::read_hit(
          *view.file, view.open->stream, to.iov, to.count, so_far.claim.at);
      if (RACACHE_LIKELY(result.complete)) {
        position::settle(*view.open, so_far.claim, result.done);
        return static_cast<long>(result.done);
      }
      so_far.held.take(fd, view.word);
      so_far.done = result.done;
    }
  }
  return read_next_slow(fd, to, use, so_far);
}

namespace {

// The target of a seek that needs no kernel: within the file. -1: it does.
int64_t target_of(int64_t position, uint64_t size, off_t offset, int whence) {
  int64_t base = 0;
  if (whence == SEEK_CUR) base = position;
  if (whence == SEEK_END) base = static_cast<int64_t>(size);
  int64_t target;
  if (__builtin_add_overflow(base, offset, &target)) return -1;
  return static_cast<uint64_t>(target) <= size ? target : -1;
}

// -1: not here.
int64_t seek_fast(int fd, off_t offset, int whence) {
  ThreadSlot* thread = epoch::self();
  if (thread == nullptr || whence < SEEK_SET || whence > SEEK_END) return -1;
  epoch::Section section(*thread);
  const View view = view_of(fd);
  if (view.file == nullptr) return -1;
  const uint64_t size = cache::size(*view.file);
  int64_t word = view.open->position.load(std::memory_order_relaxed);
  while (position::is_private(word)) {
    const int64_t target = target_of(word, size, offset, whence);
    if (target < 0 || target == word) return target;
    if (view.open->position.compare_exchange_weak(word, target)) return target;
  }
  return -1;
}

uint8_t advice_after(uint8_t before, int advice) {
  switch (advice) {
    case POSIX_FADV_NORMAL:
      return 0;
    case POSIX_FADV_RANDOM:
      return before | Advice::kRandom;
    case POSIX_FADV_NOREUSE:
      return before | Advice::kNoReuse;
    case POSIX_FADV_SEQUENTIAL:
      return (before & Advice::kNoReuse) | Advice::kSequential;
    default:
      return before;
  }
}

}  // namespace

long seek(int fd, off_t offset, int whence, KernelUse& use) {
  const int64_t target = seek_fast(fd, offset, whence);
  if (RACACHE_LIKELY(target >= 0)) return target;
  Held held(fd);
  if (!held) return kPass;
  // A lost file's position goes back to the kernel here.
  static_cast<void>(adoption::obtain(held, adoption::May::kOnlyLook));
  return position::seek(held, offset, whence, use);
}

void advise(int fd, int advice) {
  Held held(fd);
  if (!held) return;
  uint8_t before = held->advice.load();
  while (!held->advice.compare_exchange_weak(before,
                                             advice_after(before, advice))) {
  }
  File* file = adoption::obtain(held, adoption::May::kOnlyLook);
  if (file != nullptr) cache::advise(*file, held->stream, advice);
}

bool willneed(int fd, off_t offset, off_t length) {
  if (offset < 0 || length < 0) return false;
  Held held(fd);
  if (!held) return false;
  File* file = adoption::obtain(held);
  if (file == nullptr || adoption::on_alternate_stack()) return false;
  cache::willneed(*file, held->stream, static_cast<uint64_t>(offset),
                  static_cast<uint64_t>(length), fd);
  return true;
}

void dontneed(int fd, off_t offset, off_t length) {
  if (offset < 0 || length < 0) return;
  Held held(fd);
  if (!held) return;
  File* file = adoption::obtain(held, adoption::May::kOnlyLook);
  if (file == nullptr) return;
  cache::dontneed(*file, static_cast<uint64_t>(offset),
                  static_cast<uint64_t>(length));
}

}  // namespace racache::preload::serve
