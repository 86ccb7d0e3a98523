// SPDX-License-Identifier: MIT
#include "core/verify.h"

#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/engine.h"
#include "core/log.h"

namespace racache::verify {
namespace {

constexpr size_t kPiece = 4096;

enum class Verdict : uint8_t { kSame, kDifferent, kUnknown };

// The kernel's bytes against the caller's, piece by piece: hash against hash.
Verdict compare(const iovec* iov, int iov_count, size_t bytes, uint64_t offset,
                int fd) {
  std::byte kernel[kPiece];
  for (int i = 0; i < iov_count && bytes != 0; ++i) {
    const std::byte* ours = static_cast<const std::byte*>(iov[i].iov_base);
    size_t left = iov[i].iov_len < bytes ? iov[i].iov_len : bytes;
    bytes -= left;
    while (left != 0) {
      const size_t n = left < kPiece ? left : kPiece;
      const long got = sys::invoke(SYS_pread64, fd, kernel, n, offset);
      if (sys::failed(got)) return Verdict::kUnknown;
      if (got != static_cast<long>(n) ||
          XXH3_64bits(kernel, n) != XXH3_64bits(ours, n)) {
        return Verdict::kDifferent;
      }
      ours += n;
      offset += n;
      left -= n;
    }
  }
  return Verdict::kSame;
}

// Whether a buffer was filled and then overwritten by a later one: then memory
// does not show what the file was.
bool overlap(const iovec* iov, int iov_count) {
  for (int i = 1; i < iov_count; ++i) {
    const auto from = reinterpret_cast<uintptr_t>(iov[i].iov_base);
    for (int j = 0; j < i; ++j) {
      const auto other = reinterpret_cast<uintptr_t>(iov[j].iov_base);
      if (from < other + iov[j].iov_len && other < from + iov[i].iov_len) {
        return true;
      }
    }
  }
  return false;
}

void report(File& file, uint64_t offset, size_t bytes) {
  if (ThreadSlot* slot = epoch::self()) ++slot->counters.verify_failures;
  TextBuffer<400> text;
  text << "verify: " << bytes << " bytes at " << offset << " of "
       << static_cast<const char*>(file.path)
       << " differ from the kernel's; the file is the kernel's from now on";
  log::line(LogLevel::kError, text);
}

}  // namespace

cache::ReadResult check(File& file, const iovec* iov, int iov_count,
                        uint64_t offset, int fd, cache::ReadResult result) {
  Engine& engine = *file.engine;
  const uint64_t tick =
      engine.verify_tick.fetch_add(1, std::memory_order_relaxed);
  if (tick % engine.config.verify != 0 || result.done == 0) return result;
  if (ThreadSlot* slot = epoch::self()) ++slot->counters.verified;
  const Verdict verdict = compare(iov, iov_count, result.done, offset, fd);
  if (verdict == Verdict::kSame) return result;
  if (verdict == Verdict::kDifferent && overlap(iov, iov_count)) return result;
  // A writer may have come in between; then the difference means nothing. And
  // where the kernel reports an error, the program is to see it.
  if (verdict == Verdict::kDifferent && file.readable()) {
    report(file, offset, result.done);
    engine::distrust(file);
  }
  return {0, false};
}

}  // namespace racache::verify
