// SPDX-License-Identifier: MIT
// The table of descriptors is changed by threads, forked children and vfork
// children without a lock. A mistake reads the wrong file, or keeps one that
// the program has closed; these tests look for both.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "preload/fd_table.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/resource.h>

#include <set>
#include <thread>

#include "unit/seed.h"
#include "unit/tracked_fixture.h"

using namespace tracked_test;
using fake::engine;

// First, because the table is made once.
TEST_CASE("an address space that is bounded is hardly touched") {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  TestFile file(1000);
  CHECK(in_child([&] {
    rlimit limit{512 << 20, 512 << 20};
    if (setrlimit(RLIMIT_AS, &limit) != 0) return false;
    const int fd = open_tracked(file.path);
    const uint64_t taken =
        table::limit.load() * (sizeof(OpenFile) + sizeof(uint64_t));
    return tracked(fd) && taken <= (512 << 20) / 64;
  }));
  CHECK(in_child([&] {
    rlimit limit{1 << 20, 1 << 20};  // less than is mapped already
    if (setrlimit(RLIMIT_AS, &limit) != 0) return false;
    const int fd = open_tracked(file.path);
    return fd >= 0 && !tracked(fd) && table::limit.load() == 0;
  }));
#endif
  CHECK(table::limit.load() == 0);
}

TEST_CASE("only what is opened for reading, and plainly, is tracked") {
  TestFile file(1000);
  for (int flags : {O_WRONLY, O_RDWR, O_PATH, O_RDONLY | O_DIRECT}) {
    const int fd = ::open(file.path.c_str(), flags);
    fd_opened(fd, flags);
    CHECK_FALSE(tracked(fd));
    ::close(fd);
  }
  const int fd = open_tracked(file.path);
  CHECK(tracked(fd));
  close_tracked(fd);
  CHECK_FALSE(tracked(fd));
}

TEST_CASE("numbers outside the table pass through") {
  fd_opened(-1, O_RDONLY);
  fd_opened(1 << 20, O_RDONLY);
  fd_opened(INT32_MAX, O_RDONLY);
  for (int fd : {-1, INT32_MIN, 1 << 20, INT32_MAX}) {
    CHECK_FALSE(tracked(fd));
    fd_closing(fd);
    fd_replacing(fd);
    fd_duplicated(0, fd);
    fd_duplicated(fd, 0);
    share_position(fd);
    CHECK_FALSE(static_cast<bool>(Held(fd)));
  }
}

TEST_CASE("the slot's word never comes back") {
  TestFile file(10);
  std::set<uint64_t> seen;
  for (int i = 0; i < 100; ++i) {
    const int fd = open_tracked(file.path);
    CHECK(seen.insert(slot_word(fd)).second);
    close_tracked(fd);
    CHECK(seen.insert(slot_word(fd)).second);
  }
}

TEST_CASE("an open finds the number closed behind our back") {
  TestFile a(1000, 1), b(1000, 2);
  engine.reset();
  const int fd = open_tracked(a.path);
  CHECK(read_string(fd, 10) == a.part(0, 10));
  ::close(fd);
  REQUIRE(open_tracked(b.path) == fd);
  CHECK(engine.releases == 1);
  CHECK(read_string(fd, 10) == b.part(0, 10));
  close_tracked(fd);
  CHECK(engine.releases == 2);
}

TEST_CASE("duplicates share the description until the last is closed") {
  TestFile file(100000);
  engine.reset();
  const int fd = open_tracked(file.path);
  const int copy = dup_tracked(fd);
  CHECK(&description(fd) == &description(copy));
  CHECK(read_string(fd, 100) == file.part(0, 100));
  CHECK(read_string(copy, 100) == file.part(100, 100));
  CHECK(do_lseek(fd, 0, SEEK_CUR) == 200);
  CHECK(engine.adoptions == 1);
  close_tracked(fd);
  CHECK(engine.releases == 0);
  CHECK(read_string(copy, 100) == file.part(200, 100));
  close_tracked(copy);
  CHECK(engine.releases == 1);
  CHECK(engine.newest->references == 0);
}

TEST_CASE("a number replaced by dup2 has its position in the kernel") {
  TestFile a(1000, 1), b(1000, 2);
  const int fd = open_tracked(a.path), other = open_tracked(b.path);
  CHECK(read_string(fd, 10) == a.part(0, 10));
  CHECK(read_string(other, 20) == b.part(0, 20));
  fd_replacing(fd);  // and the real call fails
  CHECK_FALSE(tracked(fd));
  CHECK(kernel_position(fd) == 10);
  REQUIRE(::dup2(other, fd) == fd);
  fd_duplicated(other, fd);
  CHECK(read_string(fd, 10) == b.part(20, 10));
  CHECK(read_string(other, 10) == b.part(30, 10));
  close_tracked(fd);
  close_tracked(other);
}

TEST_CASE("a range is forgotten, and not more") {
  TestFile file(10);
  std::vector<int> fds;
  for (int i = 0; i < 10; ++i) fds.push_back(open_tracked(file.path));
  std::sort(fds.begin(), fds.end());
  const unsigned first = static_cast<unsigned>(fds[3]);
  fd_range_closing(first, static_cast<unsigned>(fds[6]));
  for (int i = 0; i < 10; ++i) CHECK(tracked(fds[i]) == (i < 3 || i > 6));
  fd_range_closing(0, ~0u);
  for (int fd : fds) CHECK_FALSE(tracked(fd));
  for (int fd : fds) ::close(fd);
}

TEST_CASE("memory of closed descriptions is used again") {
  TestFile file(100);
  uint32_t highest = 0;
  for (int i = 0; i < 20000; ++i) {
    const int fd = open_tracked(file.path);
    highest = std::max(highest, number_of(slot_word(fd)));
    close_tracked(fd);
  }
  CHECK(highest < 1000);
}

TEST_CASE("memory is not used again while a reader may look at it") {
  TestFile file(100);
  const int fd = open_tracked(file.path);
  const uint32_t number = number_of(slot_word(fd));
  std::set<uint32_t> used;
  auto open_many = [&] {
    for (int i = 0; i < 1000; ++i) {
      const int other = open_tracked(file.path);
      used.insert(number_of(slot_word(other)));
      close_tracked(other);
    }
  };
  {
    racache::epoch::Section reading(*racache::epoch::self());
    close_tracked(fd);
    open_many();
    CHECK(used.count(number) == 0);
  }
  open_many();
  CHECK(used.count(number) == 1);
}

TEST_CASE("a close waits for the lseek that another thread is in") {
  TestFile file(100);
  const int fd = open_tracked(file.path);
  OpenFile& open = description(fd);
  open.position = position::kMoving;
  std::atomic<bool> closed{false};
  std::thread closer([&] {
    fd_closing(fd);
    closed = true;
  });
  while (tracked(fd)) usleep(100);
  usleep(20000);
  CHECK_FALSE(closed);
  open.position = position::kShared;
  closer.join();
  CHECK(closed);
  ::close(fd);
}

TEST_CASE("memory is used again in a forked child as well") {
  TestFile file(100);
  CHECK(in_child([&] {
    uint32_t highest = 0;
    for (int i = 0; i < 20000; ++i) {
      const int fd = open_tracked(file.path);
      highest = std::max(highest, number_of(slot_word(fd)));
      close_tracked(fd);
    }
    return highest < 2000;
  }));
}

TEST_CASE("a forked child reads on in the kernel, and adopts anew") {
  TestFile file(100000);
  engine.reset();
  const int fd = open_tracked(file.path);
  CHECK(read_string(fd, 100) == file.part(0, 100));
  CHECK(in_child([&] {
    return read_string(fd, 50) == file.part(100, 50) && !is_private(fd) &&
           kernel_position(fd) == 150 &&
           pread_string(fd, 10, 5000) == file.part(5000, 10) &&
           stage(fd) == Stage::kCached && engine.adoptions == 2;
  }));
  CHECK(read_string(fd, 50) == file.part(150, 50));  // one position, of both
  CHECK(engine.releases == 0);
  close_tracked(fd);
  CHECK(engine.releases == 1);
}

TEST_CASE("a child forked behind our back begins where its parent was") {
  TestFile file(100000);
  const int fd = open_tracked(file.path);
  CHECK(read_string(fd, 100) == file.part(0, 100));
  REQUIRE(is_private(fd));
  CHECK(in_child([&] { return read_string(fd, 50) == file.part(100, 50); },
                 false));
  CHECK(is_private(fd));
  CHECK(read_string(fd, 50) == file.part(100, 50));
  close_tracked(fd);
}

TEST_CASE("a child waits for nobody who stayed behind") {
  TestFile file(100000);
  const int adopting = open_tracked(file.path);
  const int moving = open_tracked(file.path);
  description(adopting).status = status_now(Stage::kAdopting);
  description(moving).position = position::kMoving;
  CHECK(in_child(
      [&] {
        alarm(20);
        share_positions(Share::kAll);
        const bool read = read_string(adopting, 10) == file.part(0, 10);
        do_lseek(moving, 0, SEEK_CUR);
        fd_closing(moving);
        return read;
      },
      false));
  description(adopting).status = status_now(Stage::kUntried);
  description(moving).position = position::kShared;
  close_tracked(adopting);
  close_tracked(moving);
}

namespace {

// A child that shares our memory, but not our numbers.
template <class Body>
void in_vfork_child(Body& body) {
  static char stack[256 << 10];
  share_positions(Share::kInheritable);  // as the hook of vfork does
  const int pid = ::clone(
      [](void* argument) -> int {
        (*static_cast<Body*>(argument))();
        _exit(0);
      },
      stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &body);
  int status = -1;
  waitpid(pid, &status, 0);
  REQUIRE(status == 0);
}

}  // namespace

#if !defined(__SANITIZE_THREAD__)
TEST_CASE("a vfork child changes nothing for its parent") {
  TestFile a(100000, 1), b(100000, 2);
  engine.reset();
  const int fd = open_tracked(a.path), untouched = open_tracked(b.path);
  CHECK(read_string(fd, 100) == a.part(0, 100));
  CHECK(read_string(untouched, 100) == b.part(0, 100));
  CHECK(in_own_process());
  bool own = true, tracked_there = true, reopened = true;
  std::string from_other, from_untouched;
  auto body = [&] {
    own = in_own_process();
    close_tracked(fd);
    tracked_there = own_word(fd) != 0;
    const int again = open_tracked(b.path);
    reopened = again == fd;
    from_other.resize(10);
    if (own_word(again) == 0) {
      from_other.resize(::read(again, from_other.data(), 10));
    }
    from_untouched = read_string(untouched, 10);
  };
  in_vfork_child(body);
  CHECK_FALSE(own);
  CHECK_FALSE(tracked_there);
  CHECK(reopened);
  CHECK(from_other == b.part(0, 10));
  CHECK(from_untouched == b.part(100, 10));
  CHECK(own_word(fd) != 0);
  CHECK(read_string(fd, 50) == a.part(100, 50));
  CHECK(read_string(untouched, 10) == b.part(110, 10));
  CHECK(engine.releases == 0);
  close_tracked(fd);
  close_tracked(untouched);
  CHECK(engine.releases == 2);
}

TEST_CASE("a vfork child knows what an earlier one closed only for itself") {
  TestFile file(100000);
  const int fd = open_tracked(file.path);
  CHECK(read_string(fd, 100) == file.part(0, 100));
  auto closing = [&] { close_tracked(fd); };
  in_vfork_child(closing);
  CHECK((slot_word(fd) & kContested) != 0);
  std::string got(10, '?');
  auto redirecting = [&] {
    share_position(fd);  // as the hook of dup2 does there
    if (::dup2(fd, 0) == 0) got.resize(::read(0, got.data(), 10));
  };
  in_vfork_child(redirecting);
  CHECK(got == file.part(100, 10));
  CHECK(read_string(fd, 10) == file.part(110, 10));
  close_tracked(fd);
}
#endif

TEST_CASE("positions that a new program would inherit go to the kernel") {
  TestFile file(1000);
  const int kept = open_tracked(file.path), closed = open_tracked(file.path);
  CHECK(read_string(kept, 10) == file.part(0, 10));
  CHECK(read_string(closed, 20) == file.part(0, 20));
  REQUIRE(fcntl(kept, F_SETFD, 0) == 0);
  share_positions(Share::kInheritable);
  CHECK_FALSE(is_private(kept));
  CHECK(kernel_position(kept) == 10);
  CHECK(is_private(closed));
  CHECK(kernel_position(closed) == 0);
  share_positions(Share::kAll);
  CHECK_FALSE(is_private(closed));
  CHECK(kernel_position(closed) == 20);
  close_tracked(kept);
  close_tracked(closed);
}

TEST_CASE("threads that open, duplicate, read and close") {
  constexpr int kFiles = 8, kThreads = 4;
  test_seed();  // before there are threads that would ask for it first
  std::vector<std::unique_ptr<TestFile>> files;
  for (unsigned i = 0; i < kFiles; ++i)
    files.push_back(std::make_unique<TestFile>(20000 + 100 * i, i));
  engine.reset();
  std::atomic<int> wrong{0};
  auto work = [&](uint64_t stream) {
    Random random(stream);
    for (int round = 0; round < 1000; ++round) {
      const TestFile& file = *files[random.below(kFiles)];
      const int fd = open_tracked(file.path);
      // Nobody's lseek has met this new file.
      if (::lseek(fd, 0, SEEK_CUR) != 0) ++wrong;
      const size_t n = random.below(5000);
      if (read_string(fd, n) != file.part(0, n)) ++wrong;
      const int copy = random.one_in(3) ? dup_tracked(fd) : -1;
      if (read_string(fd, 100) != file.part(n, 100)) ++wrong;
      if (copy >= 0) {
        if (read_string(copy, 100) != file.part(n + 100, 100)) ++wrong;
        close_tracked(copy);
      }
      close_tracked(fd);
    }
  };
  std::atomic<bool> stop{false};
  std::thread forking([&] {  // as a fork handler would, at any time
    while (!stop) {
      share_positions(Share::kAll);
      usleep(50);
    }
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  stop = true;
  forking.join();
  CHECK(wrong == 0);
  CHECK(engine.releases == engine.adoptions);
}

TEST_CASE("readers race with the close and reuse of their number") {
  TestFile a(5000, 1), b(5000, 2);
  engine.reset();
  std::atomic<int> number{-1};
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  auto read = [&] {
    while (!stop) {
      char got[64];
      const int fd = number.load();
      const ssize_t n = do_pread(fd, got, sizeof got, 1000);
      if (n != sizeof got) continue;
      const std::string bytes(got, sizeof got);
      if (bytes != a.part(1000, 64) && bytes != b.part(1000, 64)) ++wrong;
    }
  };
  std::thread one(read), two(read);
  for (int i = 0; i < 5000; ++i) {
    const int fd = open_tracked((i % 2 != 0 ? a : b).path);
    number = fd;
    pread_string(fd, 10, 0);
    close_tracked(fd);
  }
  stop = true;
  one.join();
  two.join();
  CHECK(wrong == 0);
  CHECK(engine.releases == engine.adoptions);
}

// Last: tracking is over for this process.
TEST_CASE("when threads part with their numbers, nothing is tracked any more") {
  TestFile file(1000);
  const int fd = open_tracked(file.path);
  CHECK(read_string(fd, 10) == file.part(0, 10));
  fd_forget_everything();
  CHECK_FALSE(tracked(fd));
  CHECK(kernel_position(fd) == 10);
  ::close(fd);
  CHECK_FALSE(tracked(open_tracked(file.path)));
}
