// SPDX-License-Identifier: MIT
// The statistics counters of one thread, and the reasons why a file or a call
// is the kernel's. Both are X-macro tables: names, JSON keys and text lines
// derive from them (core/stats.cc).
#pragma once

#include <cstdint>

namespace racache {

// field                 meaning
#define RACACHE_COUNTERS(X)                                                    \
  X(read_calls)            /* read-family calls on cached files */             \
  X(read_bytes)            /* bytes those calls returned from the cache */     \
  X(hits)                  /* calls served without waiting for a fill */       \
  X(misses)                /* calls that started or waited for a fill */       \
  X(hit_bytes)             /* bytes returned by hits */                        \
  X(syscalls_avoided)      /* calls that made no system call at all */         \
  X(device_requests)       /* reads submitted to the backend, direct */        \
  X(device_bytes)          /* bytes those reads brought */                     \
  X(used_bytes)            /* of them: in folios read at least once */         \
  X(from_page_cache_bytes) /* bytes filled from the kernel's page cache */     \
  X(sync_windows)          /* readahead windows begun by a miss */             \
  X(async_windows)         /* windows begun by a readahead mark */             \
  X(forced)                /* WILLNEED, readahead(2), FADV_RANDOM requests */  \
  X(standalone)            /* reads outside any stream */                      \
  X(marks_hit)             /* readahead marks met */                           \
  X(overlap_skips)         /* forced requests wholly present or in flight */   \
  X(trims_avoided)         /* windows that the half-window rule kept longer */ \
  X(order_fallbacks)       /* insertions at a lower order than planned */      \
  X(evicted)               /* folios evicted */                                \
  X(lookups)               /* index lookups by reads */                        \
  X(wait_count)            /* waits for a fill */                              \
  X(wait_ns)               /* nanoseconds waited */                            \
  X(polled_ns)             /* of them: looking again and again, awake */       \
  X(verified)              /* reads compared with the kernel's */              \
  X(verify_failures)       /* of them: different */                            \
  X(kernel_fallbacks)      /* requests finished by the kernel's call */        \
  X(lease_breaks)          /* leases given up because a writer came */         \
  X(adopted)               /* files adopted */

// A number that one thread writes and any thread may read: as cheap as a plain
// one. Relaxed: nothing is ordered by it.
class Count {
 public:
  constexpr Count() = default;
  constexpr Count(uint64_t n) : n_(n) {}  // NOLINT: meant to be implicit
  Count(const Count& other) : n_(other) {}
  Count& operator=(const Count& other) { return *this = uint64_t{other}; }
  Count& operator=(uint64_t n) {
    __atomic_store_n(&n_, n, __ATOMIC_RELAXED);
    return *this;
  }
  operator uint64_t() const { return __atomic_load_n(&n_, __ATOMIC_RELAXED); }
  Count& operator+=(uint64_t n) { return *this = uint64_t{*this} + n; }
  Count& operator++() { return *this += 1; }

 private:
  uint64_t n_ = 0;
};

struct Counters {
#define RACACHE_X(name) Count name;
  RACACHE_COUNTERS(RACACHE_X)
#undef RACACHE_X
  Count inserted_by_order[10];
};

// Why a file is the kernel's (files.kernel{reason: n}).
// name                 text in the statistics
#define RACACHE_REASONS(X)                                                    \
  X(kWriter, "lease: EAGAIN (a writer has it open)")                          \
  X(kNotOwner, "lease: EACCES (not owner)")                                   \
  X(kNoLease, "lease: not supported")                                         \
  X(kNoDirect, "o_direct: EINVAL")                                            \
  X(kFileSystem, "fs: not cached")                                            \
  X(kSmall, "size: small")                                                    \
  X(kHuge, "size: over 16 TiB")                                               \
  X(kExcluded, "excluded")                                                    \
  X(kOwnDirect, "opened O_DIRECT by the program")                             \
  X(kOwnLease, "leased by the program")                                       \
  X(kReopen, "reopen: refused (/proc or permission)")                         \
  X(kChanged, "reopen: another file")                                         \
  X(kBudget, "budget")                                                        \
  X(kBroken, "lease: broken by a writer")                                     \
  X(kUnwatched, "lease: the service thread does not run")                     \
  X(kRingLost, "ring lost")                                                   \
  X(kNoEngine, "engine: could not start")                                     \
  X(kIo, "io: errors")                                                        \
  X(kEscaped, "position shared with the kernel")

enum class Reason : uint8_t {
  kNone,
#define RACACHE_X(name, text) name,
  RACACHE_REASONS(RACACHE_X)
#undef RACACHE_X
  kCount
};

inline const char* reason_text(Reason reason) {
  static constexpr const char* kTexts[] = {"",
#define RACACHE_X(name, text) text,
                                           RACACHE_REASONS(RACACHE_X)
#undef RACACHE_X
  };
  return kTexts[static_cast<size_t>(reason)];
}

}  // namespace racache
