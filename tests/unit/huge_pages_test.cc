// SPDX-License-Identifier: MIT
// The statistics say how much of the cache is in huge pages: whether they do
// their work can be seen nowhere else.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "core/huge_pages.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <cstring>
#include <string>

#include <fstream>

using namespace racache;

namespace {

constexpr size_t kHuge = 2 << 20, kBlocks = 8;

// kBlocks blocks at a boundary of huge pages.
struct Memory {
  char* whole;
  char* blocks;
  explicit Memory(int advice) {
    whole = static_cast<char*>(mmap(nullptr, (kBlocks + 1) * kHuge,
                                    PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(whole != MAP_FAILED);
    const auto address = reinterpret_cast<uintptr_t>(whole);
    blocks = whole + (kHuge - address % kHuge) % kHuge;
    REQUIRE(madvise(blocks, kBlocks * kHuge, advice) == 0);
  }
  ~Memory() { munmap(whole, (kBlocks + 1) * kHuge); }
  uint64_t from() const { return reinterpret_cast<uint64_t>(blocks); }
  uint64_t to() const { return from() + kBlocks * kHuge; }
};

bool huge_pages_to_be_had() {
  std::string modes;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"),
               modes);
  return !modes.empty() && modes.find("[never]") == modes.npos;
}

void check_both(const Memory& memory, uint64_t expected) {
  uint64_t found = 1;
  CHECK(huge_pages::bytes_in(memory.blocks, kBlocks * kHuge) == expected);
  REQUIRE(huge_pages::detail::by_smaps(memory.from(), memory.to(), found));
  CHECK(found == expected);
  if (huge_pages::detail::by_scan(memory.from(), memory.to(), found)) {
    CHECK(found == expected);
  }
}

}  // namespace

TEST_CASE("what was touched of memory with huge pages") {
  const Memory memory(MADV_HUGEPAGE);
  check_both(memory, 0);
  memory.blocks[0] = memory.blocks[3 * kHuge] = 1;
  const bool had = huge_pages_to_be_had();
  check_both(memory, had ? 2 * kHuge : 0);
  // The blocks from the fourth on only.
  const uint64_t rest =
      huge_pages::bytes_in(memory.blocks + 4 * kHuge, 4 * kHuge);
  uint64_t found = 0;
  if (huge_pages::detail::by_scan(memory.from() + 4 * kHuge, memory.to(),
                                  found)) {
    CHECK(rest == 0);
  }
}

TEST_CASE("small pages are none") {
  const Memory memory(MADV_NOHUGEPAGE);
  std::memset(memory.blocks, 1, kBlocks * kHuge);
  check_both(memory, 0);
}

TEST_CASE("more regions than one answer holds") {
  constexpr size_t kMany = 300;
  const size_t bytes = (kMany + 1) * kHuge;
  char* whole = static_cast<char*>(
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  REQUIRE(whole != MAP_FAILED);
  const auto address = reinterpret_cast<uintptr_t>(whole);
  char* blocks = whole + (kHuge - address % kHuge) % kHuge;
  REQUIRE(madvise(blocks, kMany * kHuge, MADV_HUGEPAGE) == 0);
  for (size_t i = 0; i < kMany; i += 2) blocks[i * kHuge] = 1;
  const uint64_t expected = huge_pages_to_be_had() ? kMany / 2 * kHuge : 0;
  CHECK(huge_pages::bytes_in(blocks, kMany * kHuge) == expected);
  munmap(whole, bytes);
}
