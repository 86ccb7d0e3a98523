// SPDX-License-Identifier: MIT
#include "core/cache.h"

#include <fcntl.h>

#include "core/copy.h"
#include "core/engine.h"
#include "core/fill.h"
#include "core/fill_batch.h"
#include "core/lease_watch.h"
#include "core/prev_pos.h"
#include "core/verify.h"

namespace racache::cache {
namespace {

// Where the next byte goes: the request's buffers as one.
class Destination {
 public:
  Destination(const iovec* iov, int count, size_t skip)
      : iov_(iov), end_(iov + count), used_(skip) {
    while (iov_ != end_ && used_ >= iov_->iov_len) {
      used_ -= iov_->iov_len;
      ++iov_;
    }
  }
  // Returns how many bytes could be written: fewer only at a bad buffer.
  size_t put(const std::byte* from, size_t bytes) {
    size_t done = 0;
    while (done != bytes) {
      const size_t room = iov_->iov_len - used_;
      const size_t n = bytes - done < room ? bytes - done : room;
      std::byte* to = static_cast<std::byte*>(iov_->iov_base) + used_;
      const size_t copied = racache_copy(to, from + done, n);
      done += copied;
      used_ += copied;
      if (RACACHE_UNLIKELY(copied != n)) break;
      if (used_ == iov_->iov_len) next();
    }
    return done;
  }

 private:
  void next() {
    used_ = 0;
    do {
      ++iov_;
    } while (iov_ != end_ && iov_->iov_len == 0);
  }
  const iovec* iov_;
  const iovec* end_;
  size_t used_;
};

size_t total_of(const iovec* iov, int count) {
  size_t total = 0;
  for (int i = 0; i < count; ++i) total += iov[i].iov_len;
  return total;
}

// Bytes of a request that lie before the file's end.
size_t clip(const File& file, uint64_t offset, size_t total) {
  if (offset >= file.size) return 0;
  const uint64_t left = file.size - offset;
  return total < left ? total : static_cast<size_t>(left);
}

// Before the first read: what the device brought was not in vain.
void count_first_use(Folio& folio, uint32_t word, Counters& counters) {
  if ((folio.word.fetch_and(~Folio::kReadahead, std::memory_order_relaxed) &
       Folio::kReadahead) != 0) {
    counters.used_bytes += kPageSize << Folio::order_of(word);
  }
}

// Small reads in a row are one use of a part, not many: a read that goes on
// where the last one of this description stopped says nothing new.
RACACHE_COLD void note_use(Folio& folio, uint32_t word, uint64_t offset,
                           size_t within, size_t bytes, uint64_t previous,
                           Counters& counters) {
  if ((word & Folio::kReadahead) != 0) count_first_use(folio, word, counters);
  const unsigned order = Folio::order_of(word);
  const uint32_t parts = Folio::use_of(order, within, bytes,
                                       Folio::goes_on(order, offset, previous));
  const uint32_t used = (word >> Folio::kUsedShift) & parts;
  const uint32_t bits =
      (used << Folio::kAgainShift) | ((parts & ~used) << Folio::kUsedShift);
  if ((word & bits) != bits) {
    folio.word.fetch_or(bits, std::memory_order_relaxed);
  }
}

enum class Stop : uint8_t { kEnd, kAbsent, kFilling, kMarked, kBadBuffer };

struct Progress {
  Stop stop;
  FolioId folio;  // filling or marked
};

// Copies folio after folio while they are plainly there. Inside a section.
// `previous` is where the description's last read ended.
RACACHE_HOT Progress copy_present(File& file, uint64_t& offset, size_t& left,
                                  Destination& to, uint64_t previous,
                                  Counters& counters) {
  Arena& arena = file.engine->arena;
  while (left != 0) {
    const FolioId id = file.index.lookup(offset >> kPageShift);
    ++counters.lookups;
    if (id == kNoFolio) return {Stop::kAbsent, id};
    Folio& folio = arena.folio(id);
    const uint32_t word = folio.word.load(std::memory_order_acquire);
    if (RACACHE_UNLIKELY((word & (Folio::kUptodate | Folio::kMark)) !=
                         Folio::kUptodate)) {
      if ((word & Folio::kMark) != 0) return {Stop::kMarked, id};
      return {(word & Folio::kFilling) != 0 ? Stop::kFilling : Stop::kAbsent,
              id};
    }
    const size_t size = kPageSize << Folio::order_of(word);
    const size_t within = offset & (size - 1);
    const size_t n = left < size - within ? left : size - within;
    if (RACACHE_UNLIKELY(!Folio::well_known(word, within, n))) {
      note_use(folio, word, offset, within, n, previous, counters);
    }
    const size_t copied = to.put(arena.memory(id) + within, n);
    offset += copied;
    left -= copied;
    if (RACACHE_UNLIKELY(copied != n)) return {Stop::kBadBuffer, id};
  }
  return {Stop::kEnd, kNoFolio};
}

// For comparison: a kernel without the third rule learns by one more look-up
// that the page behind the last one is not wanted.
void look_beyond(File& file, uint64_t end, Counters& counters) {
  if (file.engine->config.single_lookup) return;
  const PageIndex page = pages_of(end);
  if (page < file.pages) (void)file.index.lookup(page);
  ++counters.lookups;
}

// A hit that is to be compared. False: the slow half does that.
RACACHE_COLD bool look_twice(File& file, uint64_t end, Counters& counters) {
  if (file.engine->config.verify != 0) return false;
  look_beyond(file, end, counters);
  return true;
}

// One slow read under way.
struct SlowRead {
  File& file;
  OpenStream& stream;
  uint64_t offset;
  size_t left;
  uint64_t end;  // of the request as it was made, maybe past the file's end
  int fd;
  int stuck;   // rounds without progress
  int absent;  // of them: found nothing there
  bool waited;

  // Readahead goes by what was asked for, not by what there is: a buffer that
  // is larger than the file is a large request (kernel-semantics.md 2.10).
  uint64_t pages_left(PageIndex from) const { return pages_of(end) - from; }
};

void wait_for(SlowRead& read, FolioId id, Counters& counters) {
  Engine& engine = *read.file.engine;
  const uint64_t begin = sys::monotonic_ns();
  read.stream.pipeline.starved();
  if (!engine.relay.empty()) fill_batch::submit_relayed(engine);
  engine.backend->wait(*engine.backend, engine.arena.folio(id).word,
                       Folio::kFilling);
  counters.wait_ns += sys::monotonic_ns() - begin;
  ++counters.wait_count;
  read.waited = true;
}

// The mark is taken by one reader only; it reads ahead before anyone waits.
void meet_mark(SlowRead& read, FolioId id) {
  Folio& folio = read.file.engine->arena.folio(id);
  PageIndex first;
  unsigned order;
  {
    ThreadSlot* slot = epoch::self();
    epoch::Section section(*slot);
    if (read.file.index.lookup(read.offset >> kPageShift) != id) return;
    if (!folio.try_clear_mark()) return;
    first = folio.index;
    order = Folio::order_of(folio.word.load(std::memory_order_relaxed));
  }
  fill::on_mark(read.file, read.stream, first, order, read.pages_left(first),
                read.fd);
}

// What stopped the copy is dealt with; false when the kernel has to go on.
bool resolve(SlowRead& read, const Progress& progress, Counters& counters) {
  constexpr int kPatience = 8;
  if (progress.stop == Stop::kBadBuffer) return false;  // EFAULT is its word
  if (!read.file.readable()) return false;
  SignalGuard signals;
  switch (progress.stop) {
    case Stop::kMarked:
      meet_mark(read, progress.folio);
      return true;
    case Stop::kFilling:
      wait_for(read, progress.folio, counters);
      break;
    default: {
      // Once more, because it may have been evicted before it was copied; but
      // an error is for the kernel's call to report.
      if (++read.absent > 2) return false;
      const PageIndex page = read.offset >> kPageShift;
      read.waited = true;
      fill::on_miss(read.file, read.stream, page, read.pages_left(page),
                    read.fd);
    }
  }
  return ++read.stuck < kPatience;
}

void count_read(ThreadSlot& slot, File& file, size_t bytes, bool hit) {
  Counters& counters = slot.counters;
  ++counters.read_calls;
  counters.read_bytes += bytes;
  if (hit) {
    ++counters.hits;
    counters.hit_bytes += bytes;
    recent::count_hit(slot.recent, file);
  } else {
    ++counters.misses;
    file.waits.fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace

uint64_t size(const File& file) { return file.size; }
bool readable(const File& file) {
  return lease_watch::current() && file.readable();
}

ReadResult read_hit(File& file, OpenStream& stream, const iovec* iov,
                    int iov_count, uint64_t offset) {
  ThreadSlot* slot = epoch::self();
  if (RACACHE_UNLIKELY(slot == nullptr || !file.readable())) return {0, false};
  const size_t total = clip(file, offset, total_of(iov, iov_count));
  const Config& config = file.engine->config;
  if (RACACHE_UNLIKELY(config.verify != 0 || !config.single_lookup) &&
      !look_twice(file, offset + total, slot->counters)) {
    return {0, false};
  }
  size_t left = total;
  Destination to(iov, iov_count, 0);
  const Progress progress = copy_present(file, offset, left, to,
                                         prev_pos::get(stream), slot->counters);
  if (progress.stop != Stop::kEnd) return {total - left, false};
  if (total != 0) prev_pos::note(*slot, stream, offset);
  count_read(*slot, file, total, true);
  ++slot->counters.syscalls_avoided;
  return {total, true};
}

ReadResult read(File& file, OpenStream& stream, const iovec* iov, int iov_count,
                uint64_t offset, int fd, size_t skip) {
  ThreadSlot* slot = epoch::self();
  if (slot == nullptr || !file.readable()) return {skip, false};
  const size_t wanted = total_of(iov, iov_count);
  const size_t total = clip(file, offset, wanted);
  SlowRead read{file, stream, offset + skip, total - skip, offset + wanted, fd,
                0,    0,      false};
  Destination to(iov, iov_count, skip);
  prev_pos::take_over(*slot, stream);
  bool complete = true;
  const uint64_t previous = skip != 0 ? offset + skip : prev_pos::get(stream);
  for (;;) {
    const uint64_t before = read.offset;
    Progress progress;
    {
      epoch::Section section(*slot);
      progress = copy_present(file, read.offset, read.left, to, previous,
                              slot->counters);
      if (progress.stop == Stop::kEnd) {
        look_beyond(file, read.offset, slot->counters);
      }
    }
    if (progress.stop == Stop::kEnd) break;
    if (read.offset != before) read.stuck = read.absent = 0;
    if (!resolve(read, progress, slot->counters)) {
      complete = false;
      ++slot->counters.kernel_fallbacks;
      break;
    }
  }
  if (total != read.left) prev_pos::set(stream, read.offset);
  count_read(*slot, file, total - read.left, !read.waited);
  const ReadResult result{total - read.left, complete};
  if (file.engine->config.verify != 0) {
    return verify::check(file, iov, iov_count, offset, fd, result);
  }
  return result;
}

void willneed(File& file, OpenStream& stream, uint64_t offset, uint64_t length,
              int fd) {
  (void)stream;  // its state is the sequential reader's: left alone
  ThreadSlot* slot = epoch::self();
  if (slot == nullptr || !file.readable() || offset >= file.size) return;
  PageIndex page = offset >> kPageShift;
  PageIndex end = file.pages;
  if (length != 0 && length < file.size - offset) {
    end = pages_of(offset + length);
  }
  Engine& engine = *file.engine;
  const uint64_t most = engine.arena.limit() / 4 * 3 >> kPageShift;
  if (end - page > most) end = page + most;
  SignalGuard signals;
  {
    epoch::Section section(*slot);
    const PageIndex hole = file.index.next_hole(page, end - page);
    if (hole == end && engine.config.overlap_skip) {
      ++slot->counters.overlap_skips;
      return;
    }
  }
  // The caller submits about one block, so that a read right behind a small
  // hint finds it under way; clearing memory for more would keep it waiting.
  // The rest begins with a block, where the largest folios can.
  PageIndex soon = round_down(page + kBlockPages * 3 / 2, kBlockPages);
  if (soon > end || end - page < kBlockPages) soon = end;
  const PageIndex next = fill::force(file, page, soon, fd);
  if (next < end) engine.background.add_hint(file, next, end);
}

void dontneed(File& file, uint64_t offset, uint64_t length) {
  // kernel-semantics.md 5.1: only folios wholly inside the range go; a range
  // may end within a page only where the file ends.
  if (!file.readable()) return;
  const uint64_t last = offset + length - 1;  // inclusive
  const PageIndex first = pages_of(offset);
  PageIndex end = file.pages;
  if (length != 0 && last >= offset) {
    const bool whole = (last & (kPageSize - 1)) == kPageSize - 1;
    end = (last >> kPageShift) + (whole || last == file.size - 1 ? 1 : 0);
  }
  if (end > file.pages) end = file.pages;
  if (first >= end) return;
  SignalGuard signals;
  file.engine->evictor.drop(*file.engine, file, first, end);
  file.engine->evictor.sweep(*file.engine);
}

void advise(File& file, OpenStream& stream, int advice) {
  SignalGuard signals;
  LockGuard guard(stream.lock);
  readahead::Stream& s = stream.stream;
  switch (advice) {
    case POSIX_FADV_NORMAL:
      s.ra_pages = file.ra_pages;
      s.random = false;
      s.noreuse = false;
      break;
    case POSIX_FADV_SEQUENTIAL:
      s.ra_pages = 2 * file.ra_pages;
      s.random = false;
      break;
    case POSIX_FADV_RANDOM:
      s.random = true;
      break;
    case POSIX_FADV_NOREUSE:
      s.noreuse = true;
      break;
    default:
      break;
  }
}

}  // namespace racache::cache
