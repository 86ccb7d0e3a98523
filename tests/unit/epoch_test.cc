// SPDX-License-Identifier: MIT
// A grace period that ends too early hands a reader someone else's bytes; one
// that never ends stops eviction. Both sides are tried here, with threads that
// end, fork, or run out of slots, and with kernels that lack membarrier.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "core/epoch.h"

#include <doctest/doctest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <thread>
#include <vector>

using namespace racache;

namespace {

constexpr uint64_t kSecond = 1000000000;

// Runs `f` in another thread up to a point, and lets it go on when told.
class Other {
 public:
  template <class F>
  explicit Other(F f) : thread_([this, f] { f(*this); }) {
    while (!paused_.load()) std::this_thread::yield();
  }
  ~Other() { finish(); }
  void pause() {
    paused_.store(true);
    while (!go_on_.load()) std::this_thread::yield();
  }
  void finish() {
    go_on_.store(true);
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::atomic<bool> paused_{false};
  std::atomic<bool> go_on_{false};
  std::thread thread_;
};

uint32_t slots_used() {
  uint32_t count = 0;
  epoch::for_each(
      [](ThreadSlot&, void* argument) { ++*static_cast<uint32_t*>(argument); },
      &count);
  return count;
}

// The exit status of `f`, run in a forked child.
template <class F>
int in_child(F f) {
  const pid_t child = fork();
  if (child == 0) _exit(f());
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

// From here on membarrier(2) fails with `error`, for good.
bool refuse_membarrier(uint32_t error) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {4, filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// A grace period waits for a section that is open, and for no longer.
bool grace_periods_work() {
  std::atomic<int> step{0};
  std::thread reader([&] {
    ThreadSlot* slot = epoch::self();
    if (slot == nullptr) return step.store(-1);
    {
      epoch::Section section(*slot);
      step.store(1);
      while (step.load() < 2) std::this_thread::yield();
    }
    step.store(3);
  });
  while (step.load() == 0) std::this_thread::yield();
  const epoch::Stamp stamp = epoch::retire();
  const bool early = epoch::passed(stamp);
  if (step.load() > 0) step.store(2);
  reader.join();
  return step.load() == 3 && !early && epoch::wait(stamp, kSecond);
}

struct Init {
  Init() { REQUIRE(epoch::init()); }
};

}  // namespace

TEST_CASE("before init there is no slot, but a stamp passes") {
  // In a child, because the mapping stays once it is made.
  CHECK(in_child([] {
          if (epoch::self() != nullptr) return 1;
          if (!epoch::passed(epoch::retire())) return 2;
          if (!epoch::init() || !epoch::init()) return 3;
          return epoch::self() != nullptr ? 0 : 4;
        }) == 0);
}

TEST_CASE_FIXTURE(Init, "a thread keeps its slot") {
  ThreadSlot* mine = epoch::self();
  REQUIRE(mine != nullptr);
  CHECK(epoch::self() == mine);
  ThreadSlot* others = nullptr;
  std::thread([&] { others = epoch::self(); }).join();
  CHECK(others != nullptr);
  CHECK(others != mine);
}

TEST_CASE_FIXTURE(Init, "only the outermost section counts") {
  ThreadSlot& slot = *epoch::self();
  const bool outer = epoch::enter(slot);
  CHECK(outer);
  const uint64_t epoch = slot.epoch.load();
  CHECK(epoch != 0);
  const epoch::Stamp stamp = epoch::retire();
  const bool inner = epoch::enter(slot);
  CHECK_FALSE(inner);
  CHECK(slot.epoch.load() == epoch);
  epoch::leave(slot, inner);
  CHECK(slot.epoch.load() == epoch);
  CHECK_FALSE(epoch::passed(stamp));
  epoch::leave(slot, outer);
  CHECK(slot.epoch.load() == 0);
  CHECK(epoch::passed(stamp));
}

TEST_CASE_FIXTURE(Init, "a stamp waits for sections before it, not after") {
  const epoch::Stamp before = epoch::retire();
  Other reader([](Other& self) {
    epoch::Section section(*epoch::self());
    self.pause();
  });
  const epoch::Stamp during = epoch::retire();
  Other late([](Other& self) {
    epoch::Section section(*epoch::self());
    self.pause();
  });
  CHECK(before < during);
  CHECK(epoch::passed(before));
  CHECK_FALSE(epoch::passed(during));
  CHECK_FALSE(epoch::wait(during, kSecond / 100));
  reader.finish();
  CHECK(epoch::passed(during));
  const epoch::Stamp after = epoch::retire();
  CHECK_FALSE(epoch::passed(after));
  late.finish();
  CHECK(epoch::wait(after, kSecond));
  CHECK(epoch::passed(during));  // for ever
}

TEST_CASE_FIXTURE(Init, "wait returns when the section ends") {
  std::atomic<bool> entered{false};
  std::thread reader([&] {
    epoch::Section section(*epoch::self());
    entered.store(true);
    usleep(20000);
  });
  while (!entered.load()) std::this_thread::yield();
  CHECK(epoch::wait(epoch::retire(), 10 * kSecond));
  reader.join();
}

TEST_CASE_FIXTURE(Init, "a thread that ends inside a section stalls nothing") {
  std::thread([] { (void)epoch::enter(*epoch::self()); }).join();
  CHECK(epoch::wait(epoch::retire(), 5 * kSecond));
  // Whoever gets its slot starts outside.
  for (int i = 0; i < 50; ++i) {
    std::thread([] {
      ThreadSlot& slot = *epoch::self();
      CHECK(slot.epoch.load() == 0);
      const bool opened = epoch::enter(slot);
      CHECK(opened);
      epoch::leave(slot, opened);
    }).join();
  }
}

TEST_CASE_FIXTURE(Init,
                  "slots of ended threads are used again, with counters") {
  const uint32_t before = slots_used();
  for (int i = 0; i < 2000; ++i) {
    std::thread([] { ++epoch::self()->counters.hits; }).join();
  }
  CHECK(slots_used() <= before + 16);
  uint64_t hits = 0;
  epoch::for_each(
      [](ThreadSlot& slot, void* argument) {
        *static_cast<uint64_t*>(argument) += slot.counters.hits;
      },
      &hits);
  CHECK(hits == 2000);
}

TEST_CASE_FIXTURE(Init, "a number of its own for each forked process") {
  const uint32_t mine = epoch::process_number();
  CHECK(mine != 0);
  CHECK(epoch::process_number() == mine);
  ThreadSlot* slot = epoch::self();
  epoch::Section section(*slot);  // of the parent: not the child's concern
  CHECK(in_child([=] {
          const uint32_t child = epoch::process_number();
          if (child == 0 || child == mine) return 1;
          if (slots_used() != 0) return 2;
          if (epoch::self() == nullptr || slots_used() != 1) return 3;
          if (epoch::process_number() != child) return 4;
          if (!epoch::passed(epoch::retire())) return 5;
          const int below = in_child([=] {
            const uint32_t number = epoch::process_number();
            return number == 0 || number == mine || number == child;
          });
          return below == 0 ? 0 : 6;
        }) == 0);
  CHECK(epoch::process_number() == mine);
}

TEST_CASE_FIXTURE(Init, "a forked child has working grace periods") {
  CHECK(in_child([] { return grace_periods_work() ? 0 : 1; }) == 0);
}

TEST_CASE_FIXTURE(Init, "without membarrier, readers fence") {
  CHECK(in_child([] {
          if (!refuse_membarrier(ENOSYS)) return 1;
          if (!grace_periods_work()) return 2;
          return epoch::detail::root.fence.load() ? 0 : 3;
        }) == 0);
}

TEST_CASE_FIXTURE(Init, "a membarrier that stops working stops reuse only") {
  CHECK(in_child([] {
          ThreadSlot* slot = epoch::self();
          if (slot == nullptr || !epoch::passed(epoch::retire())) return 1;
          if (!refuse_membarrier(EPERM)) return 2;
          if (epoch::passed(epoch::retire())) return 3;
          epoch::Section section(*slot);
          return slot->epoch.load() != 0 ? 0 : 4;
        }) == 0);
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
namespace {

struct Crowd {
  std::atomic<uint32_t> served{0};
  std::atomic<uint32_t> refused{0};
  std::atomic<bool> leave{false};
};

void* join_crowd(void* argument) {
  Crowd& crowd = *static_cast<Crowd*>(argument);
  ThreadSlot* slot = epoch::self();
  (slot != nullptr ? crowd.served : crowd.refused).fetch_add(1);
  crowd.leave.wait(false);
  return nullptr;
}

}  // namespace

TEST_CASE_FIXTURE(Init, "more threads than slots: the rest go without") {
  constexpr uint32_t kThreads = epoch::kSlots + 20;
  Crowd crowd;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64 << 10);
  std::vector<pthread_t> threads(kThreads);
  uint32_t started = 0;
  while (started < kThreads && pthread_create(&threads[started], &attributes,
                                              join_crowd, &crowd) == 0) {
    ++started;
  }
  while (crowd.served.load() + crowd.refused.load() < started) usleep(1000);
  if (started == kThreads) {
    CHECK(crowd.served.load() <= epoch::kSlots);
    CHECK(crowd.refused.load() >= 20);
    CHECK(slots_used() == epoch::kSlots);
  }
  crowd.leave.store(true);
  crowd.leave.notify_all();
  for (uint32_t i = 0; i < started; ++i) pthread_join(threads[i], nullptr);
  // Those who come later find room.
  std::thread([] { CHECK(epoch::self() != nullptr); }).join();
}
#endif
