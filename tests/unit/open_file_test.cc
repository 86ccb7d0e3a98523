// SPDX-License-Identifier: MIT
// The position of a cached file lives in user space, yet every read and seek
// must look as if the kernel had done it: also while a writer takes the file
// away, while threads share the description, and after it has escaped.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "preload/open_file.h"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <csignal>
#include <thread>

#include "unit/seed.h"
#include "unit/tracked_fixture.h"

using namespace tracked_test;
using fake::engine;

TEST_CASE("reads move a position that the kernel knows nothing of") {
  TestFile file(10000);
  engine.reset();
  const int fd = open_tracked(file.path);
  CHECK(read_string(fd, 4000) == file.part(0, 4000));
  CHECK(read_string(fd, 4000) == file.part(4000, 4000));
  CHECK(read_string(fd, 4000) == file.part(8000, 2000));
  CHECK(read_string(fd, 4000).empty());
  CHECK(do_lseek(fd, 0, SEEK_CUR) == 10000);
  CHECK(kernel_position(fd) == 0);
  CHECK(pread_string(fd, 100, 50) == file.part(50, 100));
  CHECK(do_lseek(fd, 0, SEEK_CUR) == 10000);
  CHECK(engine.adoptions == 1);
  close_tracked(fd);
}

TEST_CASE("the position before the first read is taken over") {
  TestFile file(10000);
  const int fd = open_tracked(file.path);
  CHECK(do_lseek(fd, 123, SEEK_SET) == 123);
  CHECK_FALSE(is_private(fd));
  CHECK(read_string(fd, 10) == file.part(123, 10));
  CHECK(is_private(fd));
  CHECK(kernel_position(fd) == 123);
  close_tracked(fd);
}

TEST_CASE("nothing wanted, nothing done") {
  TestFile file(100);
  const int fd = open_tracked(file.path);
  CHECK(do_read(fd, nullptr, 0) == 0);
  CHECK(do_readv(fd, nullptr, 0) == 0);
  CHECK(do_pread(fd, nullptr, 0, 50) == 0);
  iovec empty[2] = {{nullptr, 0}, {nullptr, 0}};
  CHECK(do_readv(fd, empty, 2) == 0);
  CHECK(do_lseek(fd, 0, SEEK_CUR) == 0);
  close_tracked(fd);
}

TEST_CASE("vectors are filled in order") {
  TestFile file(1000);
  const int fd = open_tracked(file.path);
  char a[10], b[300], c[1000];
  iovec iov[4] = {{a, 10}, {nullptr, 0}, {b, 300}, {c, 1000}};
  CHECK(do_readv(fd, iov, 4) == 1000);
  CHECK(std::string(a, 10) == file.part(0, 10));
  CHECK(std::string(b, 300) == file.part(10, 300));
  CHECK(std::string(c, 690) == file.part(310, 690));
  CHECK(do_lseek(fd, 0, SEEK_CUR) == 1000);
  close_tracked(fd);
}

TEST_CASE("what the kernel refuses, it refuses") {
  TestFile file(1000);
  const int fd = open_tracked(file.path);
  char buffer[16];
  CHECK(read_string(fd, 10) == file.part(0, 10));
  errno = 0;
  CHECK(do_pread(fd, buffer, 10, -1) == -1);
  CHECK(errno == EINVAL);
  CHECK(do_pread(fd, buffer, 10, INT64_MAX - 5) == -1);
  CHECK(errno == EINVAL);
  CHECK(do_pread(fd, buffer, SIZE_MAX, 0) == -1);
  CHECK(errno == EFAULT);
  iovec negative{buffer, SIZE_MAX};
  CHECK(do_readv(fd, &negative, 1) == -1);
  CHECK(errno == EINVAL);
  iovec one{buffer, 1};
  CHECK(do_readv(fd, &one, -1) == -1);
  CHECK(errno == EINVAL);
  CHECK(do_readv(fd, &one, 1025) == -1);
  CHECK(errno == EINVAL);
  CHECK(do_read(fd, nullptr, 10) == -1);
  CHECK(errno == EFAULT);
  CHECK(do_read(fd, reinterpret_cast<void*>(-1), 10) == -1);
  CHECK(errno == EFAULT);
  CHECK(do_lseek(fd, -1, SEEK_SET) == -1);
  CHECK(errno == EINVAL);
  CHECK(do_lseek(fd, 0, 77) == -1);
  CHECK(errno == EINVAL);
  CHECK(read_string(fd, 10) == file.part(10, 10));  // it has not moved
  close_tracked(fd);
}

TEST_CASE("success leaves errno alone") {
  TestFile file(10000);
  const int fd = open_tracked(file.path);
  errno = 77;
  CHECK(read_string(fd, 10) == file.part(0, 10));
  CHECK(do_lseek(fd, 20000, SEEK_SET) == 20000);
  CHECK(do_lseek(fd, 0, SEEK_SET) == 0);
  engine.hit_most = 3;
  engine.read_most = 5;
  CHECK(read_string(fd, 10) == file.part(0, 10));
  CHECK(errno == 77);
  engine.reset();
  close_tracked(fd);
}

TEST_CASE("a hit that stops short is finished by the slow half or the kernel") {
  TestFile file(10000);
  const int fd = open_tracked(file.path);
  CHECK(read_string(fd, 1) == file.part(0, 1));
  engine.reset();
  for (size_t hit : {size_t{0}, size_t{100}, size_t{5000}}) {
    for (size_t read : {size_t{0}, size_t{150}, SIZE_MAX}) {
      engine.hit_most = hit;
      engine.read_most = read;
      CHECK(do_lseek(fd, 7000, SEEK_SET) == 7000);
      CHECK(read_string(fd, 2000) == file.part(7000, 2000));
      CHECK(read_string(fd, 2000) == file.part(9000, 1000));
      CHECK(do_lseek(fd, 0, SEEK_CUR) == 10000);
      char a[300], b[400];
      iovec iov[2] = {{a, 300}, {b, 400}};
      CHECK(do_lseek(fd, 10, SEEK_SET) == 10);
      CHECK(do_readv(fd, iov, 2) == 700);
      CHECK(std::string(a, 300) + std::string(b, 400) == file.part(10, 700));
      CHECK(pread_string(fd, 2000, 9500) == file.part(9500, 500));
    }
  }
  engine.reset();
  close_tracked(fd);
}

TEST_CASE("a buffer that ends early takes what it can") {
  TestFile file(10000);
  const int fd = open_tracked(file.path);
  CHECK(read_string(fd, 100) == file.part(0, 100));
  char* pages = static_cast<char*>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(mprotect(pages + 4096, 4096, PROT_NONE) == 0);
  engine.hit_most = engine.read_most = 0;  // the copy is the kernel's
  CHECK(do_read(fd, pages + 4096, 100) == -1);
  CHECK(errno == EFAULT);
  CHECK(do_lseek(fd, 0, SEEK_CUR) == 100);
  CHECK(do_read(fd, pages + 4096 - 30, 100) == 30);
  CHECK(std::string(pages + 4096 - 30, 30) == file.part(100, 30));
  CHECK(do_lseek(fd, 0, SEEK_CUR) == 130);
  engine.reset();
  munmap(pages, 8192);
  close_tracked(fd);
}

TEST_CASE("one thread adopts, the others wait for it") {
  TestFile file(100000);
  engine.reset();
  engine.adoption_us = 20000;
  const int fd = open_tracked(file.path);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      if (pread_string(fd, 100, 1000 * i) != file.part(1000 * i, 100)) ++wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(engine.adoptions == 1);
  CHECK(is_private(fd));
  engine.reset();
  close_tracked(fd);
}

TEST_CASE("a refusal for good is asked for once") {
  TestFile file(1000);
  engine.reset();
  engine.refuse = racache::Reason::kSmall;
  const int fd = open_tracked(file.path);
  for (int i = 0; i < 10; ++i)
    CHECK(read_string(fd, 10) == file.part(10 * i, 10));
  CHECK(pread_string(fd, 10, 0) == file.part(0, 10));
  CHECK(engine.adoptions == 1);
  CHECK(kernel_position(fd) == 100);
  CHECK(stage(fd) == Stage::kKernels);
  engine.reset();
  close_tracked(fd);
  CHECK(engine.releases == 0);
}

TEST_CASE("what a glance refuses is neither asked about nor arranged for") {
  TestFile file(0);
  engine.reset();
  const int fd = open_tracked(file.path);
  for (int i = 0; i < 5; ++i) CHECK(read_string(fd, 10).empty());
  CHECK(do_lseek(fd, 5, SEEK_SET) == 5);
  CHECK(kernel_position(fd) == 5);
  CHECK(engine.glances == 1);
  CHECK(engine.adoptions == 0);
  CHECK_FALSE(may_serve(fd));
  close_tracked(fd);
}

TEST_CASE("a refusal for now is asked for again, later and later") {
  TestFile file(100000);
  engine.reset();
  engine.refuse = racache::Reason::kWriter;
  engine.retry = true;
  const int fd = open_tracked(file.path);
  for (int i = 0; i < 5; ++i)
    CHECK(read_string(fd, 10) == file.part(10 * i, 10));
  CHECK(engine.adoptions == 1);
  usleep(120000);
  CHECK(read_string(fd, 10) == file.part(50, 10));
  CHECK(engine.adoptions == 2);
  usleep(120000);  // now it takes 200 ms
  CHECK(read_string(fd, 10) == file.part(60, 10));
  CHECK(engine.adoptions == 2);
  usleep(100000);
  engine.refuse = racache::Reason::kNone;
  CHECK(read_string(fd, 10) == file.part(70, 10));
  CHECK(engine.adoptions == 3);
  CHECK(is_private(fd));
  CHECK(kernel_position(fd) == 70);
  CHECK(read_string(fd, 10) == file.part(80, 10));
  engine.reset();
  close_tracked(fd);
}

TEST_CASE("a file that a writer took goes back to the kernel, with its place") {
  TestFile file(100000);
  engine.reset();
  const int fd = open_tracked(file.path);
  CHECK(read_string(fd, 300) == file.part(0, 300));
  engine.newest->readable = false;
  CHECK(read_string(fd, 100) == file.part(300, 100));
  CHECK(kernel_position(fd) == 400);
  CHECK(pread_string(fd, 100, 7) == file.part(7, 100));
  CHECK(engine.adoptions == 1);
  usleep(120000);
  CHECK(pread_string(fd, 100, 9) == file.part(9, 100));
  CHECK(engine.adoptions == 2);
  CHECK(engine.releases == 1);  // of the file that was lost
  CHECK(stage(fd) == Stage::kCached);
  CHECK(read_string(fd, 100) == file.part(400, 100));  // never private again
  CHECK(kernel_position(fd) == 500);
  CHECK(engine.refusals_counted == 1);
  close_tracked(fd);
  CHECK(engine.releases == 2);
}

TEST_CASE("a lost file is not let go while a slow call is using it") {
  TestFile file(100000);
  engine.reset();
  const int fd = open_tracked(file.path);
  CHECK(pread_string(fd, 100, 0) == file.part(0, 100));
  engine.newest->readable = false;
  {
    Held slow_call(fd);
    CHECK(pread_string(fd, 100, 0) == file.part(0, 100));
    usleep(120000);
    CHECK(pread_string(fd, 100, 0) == file.part(0, 100));
    CHECK(engine.releases == 0);
    CHECK(engine.adoptions == 1);
  }
  usleep(220000);
  CHECK(pread_string(fd, 100, 0) == file.part(0, 100));
  CHECK(engine.releases == 1);
  CHECK(engine.adoptions == 2);
  close_tracked(fd);
}

TEST_CASE("a seek notices that the file was lost") {
  TestFile file(100000);
  for (int whence : {SEEK_CUR, SEEK_SET, SEEK_END}) {
    engine.reset();
    const int fd = open_tracked(file.path);
    CHECK(read_string(fd, 300) == file.part(0, 300));
    engine.newest->readable = false;
    const off_t expected = whence == SEEK_CUR   ? 310
                           : whence == SEEK_SET ? 10
                                                : 100010;
    CHECK(do_lseek(fd, 10, whence) == expected);
    CHECK(kernel_position(fd) == expected);
    close_tracked(fd);
  }
}

TEST_CASE("a file that shrinks under a claim leaves the place where it was") {
  TestFile file(100000);
  engine.reset();
  const int fd = open_tracked(file.path);
  CHECK(read_string(fd, 300) == file.part(0, 300));
  // The lease breaks between the claim and the copy: the hit stops at once.
  engine.hit_most = engine.read_most = 0;
  REQUIRE(truncate(file.path.c_str(), 350) == 0);
  CHECK(read_string(fd, 1000) == file.part(300, 50));
  CHECK(do_lseek(fd, 0, SEEK_CUR) == 350);
  engine.newest->readable = false;
  CHECK(read_string(fd, 1000).empty());
  CHECK(kernel_position(fd) == 350);
  engine.reset();
  close_tracked(fd);
}

TEST_CASE("an engine that ended is the end of caching, not of reading") {
  TestFile file(100000);
  engine.reset();
  const int fd = open_tracked(file.path);
  CHECK(read_string(fd, 300) == file.part(0, 300));
  engine.running = false;
  CHECK(read_string(fd, 100) == file.part(300, 100));
  CHECK(kernel_position(fd) == 400);
  close_tracked(fd);
  CHECK(engine.releases == 0);  // there is nobody to release it to
  engine.running = true;
}

TEST_CASE("a kernel call under way keeps the position in the kernel") {
  TestFile file(100000);
  engine.reset();
  const int fd = open_tracked(file.path);
  {
    serve::KernelUse use;
    CHECK(serve::seek(fd, 50, SEEK_SET, use) == serve::kPass);
    CHECK(pread_string(fd, 10, 0) == file.part(0, 10));
    CHECK_FALSE(is_private(fd));
    CHECK(read_string(fd, 10) == file.part(0, 10));  // by the kernel
    CHECK(::lseek(fd, 50, SEEK_SET) == 50);
  }
  CHECK(read_string(fd, 10) == file.part(50, 10));
  CHECK(is_private(fd));
  close_tracked(fd);
}

TEST_CASE("readers of one description get every byte once") {
  constexpr size_t kSize = 1 << 20;
  test_seed();  // before there are threads that would ask for it first
  TestFile file(kSize);
  engine.reset();
  engine.hit_most = 700;  // some finish slowly
  const int fd = open_tracked(file.path);
  std::vector<std::atomic<int>> seen(kSize / 64);
  // Each stretch of 64 bytes says where it is from.
  std::vector<uint64_t> places(kSize / 8);
  for (size_t i = 0; i < places.size(); ++i) places[i] = i / 8;
  const int writer = ::open(file.path.c_str(), O_WRONLY);
  REQUIRE(::write(writer, places.data(), kSize) == kSize);
  ::close(writer);
  std::atomic<int> wrong{0};
  auto work = [&](uint64_t stream) {
    Random random(stream);
    std::vector<uint64_t> buffer(4096 / 8);
    for (;;) {
      const ssize_t n = do_read(fd, buffer.data(), 64 * (1 + random.below(64)));
      if (n == 0) return;
      if (n < 0 || n % 64 != 0) ++wrong;
      for (ssize_t i = 0; i < n / 64; ++i) ++seen[buffer[i * 8] % seen.size()];
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  for (const auto& count : seen) REQUIRE(count == 1);
  engine.reset();
  close_tracked(fd);
}

TEST_CASE("readers lose their file in the middle, and no byte") {
  constexpr size_t kSize = 1 << 20;
  for (int round = 0; round < 20; ++round) {
    TestFile file(kSize, static_cast<unsigned>(round));
    engine.reset();
    const int fd = open_tracked(file.path);
    std::atomic<uint64_t> total{0}, sum{0};
    auto work = [&] {
      unsigned char buffer[1024];
      for (;;) {
        const ssize_t n = do_read(fd, buffer, sizeof buffer);
        if (n <= 0) return;
        total += static_cast<uint64_t>(n);
        uint64_t mine = 0;
        for (ssize_t i = 0; i < n; ++i) mine += buffer[i];
        sum += mine;
      }
    };
    std::thread one(work), two(work);
    usleep(100 * (round % 5));
    if (fake::FakeFile* newest = [] {
          std::lock_guard guard(engine.mutex);
          return engine.newest;
        }()) {
      newest->readable = false;
    }
    one.join();
    two.join();
    uint64_t expected = 0;
    for (unsigned char byte : file.bytes) expected += byte;
    CHECK(total.load() == kSize);
    CHECK(sum.load() == expected);
    close_tracked(fd);
  }
}

TEST_CASE("what was adopted is discarded when the number changed meanwhile") {
  static TestFile a(1000, 1), b(1000, 2);
  engine.reset();
  const int fd = open_tracked(a.path);
  const int copy = dup_tracked(fd);
  engine.during_adoption = [](int number) {
    engine.during_adoption = nullptr;
    close_tracked(number);
    if (open_tracked(b.path) != number) abort();
  };
  CHECK(pread_string(fd, 10, 0) == b.part(0, 10));
  CHECK(pread_string(copy, 10, 0) == a.part(0, 10));
  CHECK(read_string(copy, 10) == a.part(0, 10));
  CHECK(read_string(fd, 10) == b.part(0, 10));
  close_tracked(fd);
  close_tracked(copy);
  CHECK(engine.releases == 3);
  engine.reset();
}

TEST_CASE("a description given up is the kernel's, whoever uses it") {
  TestFile file(1000);
  engine.reset();
  const int fd = open_tracked(file.path);
  const int copy = dup_tracked(fd);
  CHECK(read_string(fd, 100) == file.part(0, 100));
  adoption::give_up(Held(fd));
  CHECK(engine.releases == 1);
  CHECK(read_string(copy, 100) == file.part(100, 100));
  CHECK(kernel_position(fd) == 200);
  CHECK(stage(copy) == Stage::kKernels);
  CHECK(engine.adoptions == 1);
  close_tracked(fd);
  close_tracked(copy);
  CHECK(engine.releases == 1);
}

TEST_CASE("advice is remembered until there is a file to give it for") {
  TestFile file(1000);
  engine.reset();
  const int fd = open_tracked(file.path);
  serve::advise(fd, POSIX_FADV_SEQUENTIAL);
  serve::advise(fd, POSIX_FADV_NOREUSE);
  serve::advise(fd, POSIX_FADV_RANDOM);
  CHECK(engine.adoptions == 0);
  CHECK(engine.advice_seen == 0);
  CHECK(read_string(fd, 10) == file.part(0, 10));
  CHECK(engine.advice_seen ==
        (1 << POSIX_FADV_SEQUENTIAL | 1 << POSIX_FADV_NOREUSE |
         1 << POSIX_FADV_RANDOM));
  engine.advice_seen = 0;
  serve::advise(fd, POSIX_FADV_NORMAL);
  CHECK(engine.advice_seen == 1 << POSIX_FADV_NORMAL);
  CHECK(description(fd).advice == 0);
  close_tracked(fd);
}

TEST_CASE("hints adopt, unless they make no sense") {
  TestFile file(1000);
  engine.reset();
  const int fd = open_tracked(file.path);
  CHECK_FALSE(serve::willneed(fd, -1, 10));
  CHECK_FALSE(serve::willneed(fd, 0, -1));
  serve::dontneed(fd, 0, 0);
  CHECK(engine.adoptions == 0);
  CHECK(serve::willneed(fd, 0, 0));
  CHECK(engine.adoptions == 1);
  CHECK(engine.hints == 1);
  serve::dontneed(fd, 0, 0);
  CHECK(engine.hints == 2);
  engine.newest->readable = false;
  CHECK_FALSE(serve::willneed(fd, 0, 0));
  close_tracked(fd);
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
namespace {

int handler_fd = -1;
std::atomic<ssize_t> handler_got{-2};

}  // namespace

TEST_CASE("nothing is adopted on an alternate signal stack") {
  TestFile file(1000);
  engine.reset();
  static char memory[64 << 10];
  stack_t stack{};
  stack.ss_sp = memory;
  stack.ss_size = sizeof memory;
  REQUIRE(sigaltstack(&stack, nullptr) == 0);
  struct sigaction action {};
  action.sa_flags = SA_ONSTACK;
  action.sa_handler = [](int) {
    char buffer[10];
    handler_got = do_read(handler_fd, buffer, sizeof buffer);
  };
  REQUIRE(sigaction(SIGUSR1, &action, nullptr) == 0);
  handler_fd = open_tracked(file.path);
  raise(SIGUSR1);
  CHECK(handler_got == 10);
  CHECK(engine.adoptions == 0);
  CHECK(kernel_position(handler_fd) == 10);
  CHECK(read_string(handler_fd, 10) == file.part(10, 10));
  CHECK(engine.adoptions == 1);
  raise(SIGUSR1);  // a hit is fine there
  CHECK(handler_got == 10);
  CHECK(read_string(handler_fd, 10) == file.part(30, 10));
  close_tracked(handler_fd);
  stack.ss_flags = SS_DISABLE;
  sigaltstack(&stack, nullptr);
}
#endif

TEST_CASE("readers, seekers and an escape at the same time") {
  TestFile file(100000);
  for (int round = 0; round < 50; ++round) {
    engine.reset();
    const int fd = open_tracked(file.path);
    std::atomic<int> wrong{0};
    auto work = [&](uint64_t stream) {
      Random random(stream);
      char buffer[100];
      for (int i = 0; i < 200; ++i) {
        switch (random.below(4)) {
          case 0:
            if (do_lseek(fd, random.below(90000), SEEK_SET) < 0) ++wrong;
            break;
          case 1:
            if (do_lseek(fd, 200000, SEEK_SET) != 200000) ++wrong;
            break;
          case 2:
            if (do_lseek(fd, 0, SEEK_END) != 100000) ++wrong;
            break;
          default:
            if (do_read(fd, buffer, 100) < 0) ++wrong;
        }
      }
    };
    std::thread one(work, 2 * round), two(work, 2 * round + 1);
    usleep(round * 5);
    share_position(fd);
    one.join();
    two.join();
    CHECK(wrong == 0);
    CHECK(do_lseek(fd, 0, SEEK_CUR) == kernel_position(fd));
    close_tracked(fd);
  }
}

// The same random calls on a tracked and on a plain descriptor.
TEST_CASE("no sequence of calls tells a tracked descriptor from a plain one") {
  Random random(99);
  for (int round = 0; round < 300; ++round) {
    TestFile file(1 + random.below(20000), static_cast<unsigned>(round));
    engine.reset();
    int fd = open_tracked(file.path);
    int plain = ::open(file.path.c_str(), O_RDONLY);
    for (int step = 0; step < 60; ++step) {
      const size_t count = random.below(6000);
      const off_t offset = static_cast<off_t>(random.below(25000)) - 2000;
      std::string a(count, '?'), b(count, '?');
      errno = 0;
      ssize_t x = 0, y = 0;
      int first_errno = 0;
      switch (random.below(10)) {
        case 0:
        case 1:
        case 2:
          x = do_read(fd, a.data(), count);
          first_errno = x < 0 ? errno : 0;
          y = ::read(plain, b.data(), count);
          break;
        case 3:
          x = do_pread(fd, a.data(), count, offset);
          first_errno = x < 0 ? errno : 0;
          y = ::pread(plain, b.data(), count, offset);
          break;
        case 4:
        case 5: {
          const int whence = static_cast<int>(random.below(6));
          x = do_lseek(fd, offset, whence);
          first_errno = x < 0 ? errno : 0;
          y = ::lseek(plain, offset, whence);
          break;
        }
        case 6: {
          const size_t half = count / 2;
          iovec one[2] = {{a.data(), half}, {a.data() + half, count - half}};
          iovec two[2] = {{b.data(), half}, {b.data() + half, count - half}};
          x = do_readv(fd, one, 2);
          first_errno = x < 0 ? errno : 0;
          y = ::readv(plain, two, 2);
          break;
        }
        case 7:
          engine.hit_most = random.one_in(2) ? SIZE_MAX : random.below(3000);
          engine.read_most = random.one_in(2) ? SIZE_MAX : random.below(3000);
          break;
        case 8:
          if (random.one_in(10)) share_position(fd);
          if (random.one_in(10) && engine.newest != nullptr)
            engine.newest->readable = false;
          break;
        default:
          if (random.one_in(4)) {
            const int copy = dup_tracked(fd);
            if (random.one_in(2)) {
              close_tracked(fd);
              fd = copy;
            } else {
              close_tracked(copy);
            }
          }
      }
      REQUIRE(x == y);
      if (x < 0) REQUIRE(first_errno == errno);
      REQUIRE(a == b);
    }
    close_tracked(fd);
    ::close(plain);
    REQUIRE(engine.releases <= engine.adoptions);
  }
}
