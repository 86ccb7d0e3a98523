// SPDX-License-Identifier: MIT
// The ring lives in a process that may close its descriptor, wants its number,
// has few descriptors, or forbids io_uring. None of this may lose a read or be
// visible to the application.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "core/epoch.h"
#include "core/uring_ring.h"
#include "tests/unit/backend_fixture.h"

using namespace racache;
using namespace racache::test;

namespace {

// Runs f in a child; 0 when it returned true.
template <class F>
int in_child(F f) {
  const pid_t pid = fork();
  if (pid == 0) _exit(f() ? 0 : 1);
  int status = -1;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

}  // namespace

TEST_CASE("a completion popped after freeze() ends the freezer's sleep") {
  Ring ring;
  REQUIRE(ring.setup({}) == 0);
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  uint8_t byte[2];
  Read reads[2];
  for (int i = 0; i < 2; ++i) {
    reads[i].prepare(ring.attach(ends[0]), 0, &byte[i], 1);
    ReadOp* op = &reads[i].op;
    REQUIRE(ring.place(&op, 1) == 1);
  }
  REQUIRE(ring.flush());
  Ring::Completion popped[2];
  for (int frozen = 1; frozen >= 0; --frozen) {
    if (frozen) ring.freeze();
    REQUIRE(write(ends[1], "x", 1) == 1);
    while (ring.completed() == 0) usleep(100);
    CHECK(ring.pop(popped, 2) == 1);
    ring.publish();
    const uint64_t begin = sys::monotonic_ns();
    ring.wait_completion(900000000);
    const bool slept = sys::monotonic_ns() - begin >= 900000000;
    CHECK(slept == !frozen);
    ring.unfreeze();
  }
  CHECK(!ring.in_flight());
  ring.teardown();
  close(ends[0]);
  close(ends[1]);
}

TEST_CASE("the descriptor is high, close-on-exec, and moves on demand") {
  test::File file;
  BackendPtr b(make("uring"));
  const int slot = b->attach(*b, file.fd);
  const int before = b->ring_fd(*b);
  rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  CHECK(before >= static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1024)) - 8);
  CHECK((fcntl(before, F_GETFD) & FD_CLOEXEC) != 0);
  SlowRead slow(*b);
  REQUIRE(slow.read.submit(*b));
  Waiter waiter(*b, slow.read.word);
  settle();
  REQUIRE(b->move_ring_fd(*b));
  CHECK(b->ring_fd(*b) != before);
  CHECK(fcntl(before, F_GETFD) == -1);
  REQUIRE(dup2(file.fd, before) == before);  // what the application wanted
  CHECK(reads_well(*b, slot));
  CHECK(!b->lost(*b));
  slow.finish();
  CHECK(waiter.join() < kSoon);
  close(before);
}

TEST_CASE("a ring closed by a raw system call: every read still finishes") {
  test::File file;
  BackendPtr b(make("uring"));
  const int slot = b->attach(*b, file.fd);
  Buffer buffer(4096);
  SlowRead first(*b), second(*b);
  REQUIRE(first.read.submit(*b));
  REQUIRE(second.read.submit(*b));
  Waiter reaper(*b, first.read.word);
  Waiter sleeper(*b, second.read.word);
  settle();
  syscall(SYS_close, b->ring_fd(*b));
  Read late;
  late.prepare(slot, 0, buffer.data(), 4096);
  if (late.submit(*b)) {  // not at all, or cancelled
    late.wait(*b);
    CHECK(late.result == -ECANCELED);
  }
  CHECK(late.done_calls <= 1);
  CHECK(b->lost(*b));
  CHECK(b->ring_fd(*b) == -1);
  CHECK(!b->move_ring_fd(*b));
  settle();
  second.finish();
  CHECK(sleeper.join() < kSoon);
  CHECK(second.read.result == 8);
  first.finish();
  CHECK(reaper.join() < kSoon);
  CHECK(first.read.result == 8);
}

TEST_CASE("a ring closed while threads hammer it") {
  test::File file;
  for (int round = 0; round < 20; ++round) {
    BackendPtr b(make("uring"));
    const int slot = b->attach(*b, file.fd);
    std::atomic<unsigned> odd{0}, good{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        Buffer buffer(8 * 4096);
        for (;;) {
          Read reads[8];
          ReadOp* ops[8];
          for (unsigned i = 0; i < 8; ++i) {
            reads[i].prepare(slot, i * 4096, buffer.data() + i * 4096, 4096);
            ops[i] = &reads[i].op;
          }
          const unsigned taken = b->submit(*b, ops, 8);
          for (unsigned i = 0; i < taken; ++i) {
            reads[i].wait(*b);
            good += reads[i].result == 4096;
            odd += reads[i].result != 4096 && reads[i].result != -ECANCELED;
            odd += reads[i].done_calls != 1;
          }
          if (taken == 0 && b->lost(*b)) return;
        }
      });
    }
    usleep(2000);
    syscall(SYS_close, b->ring_fd(*b));
    for (std::thread& t : threads) t.join();
    CHECK(odd == 0);
    CHECK(uring_stats(*b).rescues == 0);
  }
}

TEST_CASE("the service thread's own descriptor table") {
  test::File file;
  BackendPtr b(make("uring"));
  REQUIRE(epoch::init());
  std::atomic<int> stage{0};
  int slots[2] = {-1, -1};
  bool submits = false;
  std::thread service([&] {
    unshare(CLONE_FILES);
    epoch::self()->private_table = true;
    stage = 1;
    while (stage != 2) usleep(100);
    // Known to this table only.
    const int mine = fcntl(file.fd, F_DUPFD_CLOEXEC, 500);
    slots[0] = b->attach(*b, mine);
    slots[1] = b->attach(*b, mine);
    close(mine);
    submits = reads_well(*b, slots[0]);
    stage = 3;
    while (stage != 4) usleep(100);
  });
  while (stage != 1) usleep(100);
  CHECK(b->move_ring_fd(*b));  // the service's number stays what it was
  stage = 2;
  while (stage != 3) usleep(100);
  REQUIRE(slots[0] >= 0);
  REQUIRE(slots[1] >= 0);
  CHECK(slots[0] != slots[1]);
  CHECK(submits);  // by the number that the ring has there
  CHECK(reads_well(*b, slots[0]));
  CHECK(reads_well(*b, slots[1]));
  stage = 4;
  service.join();
}

TEST_CASE("a small RLIMIT_NOFILE: as many files as fit, and no more") {
  test::File file;
  CHECK(in_child([&] {
          const rlimit limit = {24, 24};
          setrlimit(RLIMIT_NOFILE, &limit);
          BackendPtr b(make("uring"));
          if (!b) return false;
          for (int i = 0; i < 24; ++i) {
            const int slot = b->attach(*b, file.fd);
            if (slot < 0 || !reads_well(*b, slot)) return false;
          }
          rlimit now;
          getrlimit(RLIMIT_NOFILE, &now);
          return b->attach(*b, file.fd) == -ENFILE && now.rlim_cur == 24 &&
                 b->ring_fd(*b) < 24;
        }) == 0);
}

TEST_CASE("refused by seccomp: EPERM, and nothing left behind") {
  CHECK(in_child([] {
          sock_filter code[] = {
              BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
              BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
              BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
              BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
          };
          const sock_fprog program = {4, code};
          prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
          if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
            return false;
          }
          const int before = dup(0);
          auto made = make_uring({});
          const int after = dup(0);
          return !made && made.error() == Errno{EPERM} && after == before + 1;
        }) == 0);
}
