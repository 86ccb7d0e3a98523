// SPDX-License-Identifier: MIT
// Types and constants that every part of the engine shares.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <tl/expected.hpp>

#define RACACHE_HOT [[gnu::hot]]
#define RACACHE_COLD [[gnu::cold, gnu::noinline]]
#define RACACHE_LIKELY(x) __builtin_expect(!!(x), 1)
#define RACACHE_UNLIKELY(x) __builtin_expect(!!(x), 0)

namespace racache {

// The cache's page is 4 KiB whatever the CPU's is (kernel-semantics: index =
// offset >> 12).
inline constexpr unsigned kPageShift = 12;
inline constexpr size_t kPageSize = size_t{1} << kPageShift;
inline constexpr unsigned kMaxOrder = 9;
inline constexpr unsigned kOrders = kMaxOrder + 1;
inline constexpr uint64_t kBlockPages = uint64_t{1} << kMaxOrder;
inline constexpr size_t kBlockSize = kBlockPages << kPageShift;  // 2 MiB

using PageIndex = uint64_t;  // page number within a file

// A folio is named by its first page frame in the arena, plus one; 0 is none.
using FolioId = uint32_t;
inline constexpr FolioId kNoFolio = 0;

// A positive errno value on cold paths: tl::expected<T, Errno>.
enum class Errno : int {};
template <class T>
using Expected = tl::expected<T, Errno>;

// For what orders nothing.
inline constexpr auto kRelaxed = std::memory_order_relaxed;

constexpr uint64_t round_down(uint64_t x, uint64_t power_of_two) {
  return x & ~(power_of_two - 1);
}
constexpr uint64_t round_up(uint64_t x, uint64_t power_of_two) {
  return round_down(x + power_of_two - 1, power_of_two);
}
constexpr unsigned floor_log2(uint64_t x) {  // x > 0
  return 63u - static_cast<unsigned>(__builtin_clzll(x));
}
constexpr unsigned trailing_zeros(uint64_t x) {  // x > 0
  return static_cast<unsigned>(__builtin_ctzll(x));
}
// Pages of a file of `size` bytes, the last, partial one included.
constexpr uint64_t pages_of(uint64_t size) {
  return (size >> kPageShift) + ((size & (kPageSize - 1)) != 0);
}
// Pages of another size that [offset, offset + bytes) lies in; bytes > 0.
constexpr uint64_t pages_touched(uint64_t offset, uint64_t bytes,
                                 uint64_t page_size) {
  return (offset + bytes - 1) / page_size - offset / page_size + 1;
}

}  // namespace racache
