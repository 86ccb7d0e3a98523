// SPDX-License-Identifier: MIT
// Every copy to an application goes through racache_copy, in one of several
// ways that depend on size and CPU. Each must move the right bytes and no
// others, and stop at the first that cannot be written.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "core/copy.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

using namespace racache;

namespace {

constexpr size_t kMost = 5000;
constexpr char kUntouched = '\x55';

std::string source() {
  std::string bytes(kMost + 200, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(i * 131 + i / 251);
  }
  return bytes;
}

void check_all_sizes() {
  const std::string from = source();
  std::vector<char> to(kMost + 200);
  for (size_t n = 0; n <= kMost; n += n < 300 ? 1 : 61) {
    for (const size_t shift : {0, 1, 24, 63}) {
      std::fill(to.begin(), to.end(), kUntouched);
      REQUIRE(racache_copy(&to[64 + shift], &from[shift / 2], n) == n);
      REQUIRE(std::memcmp(&to[64 + shift], &from[shift / 2], n) == 0);
      for (size_t i = 0; i < 64; ++i) {
        REQUIRE(to[shift + i] == kUntouched);
        REQUIRE(to[64 + shift + n + i] == kUntouched);
      }
    }
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

void on_fault(int, siginfo_t*, void* context) {
  mcontext_t& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  auto* at = reinterpret_cast<uintptr_t*>(&machine.gregs[REG_RIP]);
#else
  auto* at = reinterpret_cast<uintptr_t*>(&machine.pc);
#endif
  if (!resume_copy(at)) _exit(66);
}

// Buffers that end, or begin, where memory does.
void check_faults() {
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
  const std::string from = source();
  constexpr size_t kPage = 65536;
  char* pages = static_cast<char*>(
      mmap(nullptr, 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(mprotect(pages, kPage, PROT_READ | PROT_WRITE) == 0);
  char* end = pages + kPage;
  for (size_t n = 1; n <= kMost; n += n < 300 ? 7 : 193) {
    for (const size_t room : {size_t{0}, size_t{1}, n / 3, n / 2, n - 1}) {
      if (room >= n) continue;
      CAPTURE(n);
      CAPTURE(room);
      std::memset(end - room, kUntouched, room);
      REQUIRE(racache_copy(end - room, from.data(), n) == room);
      REQUIRE(std::memcmp(end - room, from.data(), room) == 0);
    }
    REQUIRE(racache_copy(end + kPage - n, from.data(), n) == 0);
  }
  munmap(pages, 2 * kPage);
}

#else
void check_faults() {}
#endif

}  // namespace

TEST_CASE("before the CPU was asked") {
  check_all_sizes();
  check_faults();
}

TEST_CASE("as suits this CPU") {
  choose_copy();
  check_all_sizes();
  check_faults();
}

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
extern "C" const char* racache_copy_small;
extern "C" const char racache_copy_avx2[];

TEST_CASE("as suits CPUs with 256-bit registers") {
  if (!__builtin_cpu_supports("avx2")) return;
  racache_copy_small = racache_copy_avx2;
  check_all_sizes();
  check_faults();
}
#endif
