// SPDX-License-Identifier: MIT
// Many threads read the same pages through one backend for a while, with a
// seed, and check every byte; the ring's descriptor moves meanwhile. A waiter
// who is forgotten shows up as a wait that only its time limit ended.
//
//   backend_stress [uring|threads|fake] [seconds] [threads] [seed]
#include <cinttypes>
#include <cstdio>
#include <random>

#include "tests/unit/backend_fixture.h"

using namespace racache;
using namespace racache::test;

namespace {

constexpr unsigned kPages = 512;
constexpr unsigned kMaxBatch = 24;

struct Stress {
  Backend& b;
  Buffer buffer{kPages * 4096};
  std::vector<Read> reads{kPages};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> waits{0}, fills{0}, refused{0}, wrong{0}, longest{0};

  explicit Stress(Backend& backend, int slot) : b(backend) {
    for (unsigned i = 0; i < kPages; ++i) {
      reads[i].prepare(slot, i * 4096, buffer.data() + i * 4096, 4096);
      reads[i].word.store(0);
    }
  }

  // free or done -> filling; true for the one thread that must submit.
  static bool claim(Read& r) {
    uint32_t seen = r.word.load(std::memory_order_acquire);
    const uint32_t generation = (seen + Folio::kGenerationOne) & 0xffff0000u;
    return (seen & Folio::kFilling) == 0 &&
           r.word.compare_exchange_strong(seen, generation | Folio::kFilling);
  }

  void submit(ReadOp** ops, unsigned count) {
    const unsigned taken = b.submit(b, ops, count);
    fills += taken;
    refused += count - taken;
    for (unsigned i = taken; i < count; ++i) {
      Read::end(static_cast<Read*>(ops[i]->user)->word);
    }
  }

  void await(Read& r) {
    const uint64_t begin = sys::monotonic_ns();
    b.wait(b, r.word, Folio::kFilling);
    const uint64_t took = sys::monotonic_ns() - begin;
    uint64_t old = longest.load();
    while (old < took && !longest.compare_exchange_weak(old, took)) {
    }
    ++waits;
  }

  // A window of pages: submit those that nobody fills, then wait for some of
  // them, or for none (readahead), or for a page that others are filling.
  void round(std::minstd_rand& random) {
    ReadOp* ops[kMaxBatch];
    unsigned count = 0;
    const unsigned size = 1 + random() % kMaxBatch;
    const unsigned first = random() % (kPages - size);
    for (unsigned i = first; i < first + size; ++i) {
      if (claim(reads[i])) ops[count++] = &reads[i].op;
    }
    if (count != 0) submit(ops, count);
    for (unsigned n = random() % 4; n > 0; --n) {
      await(reads[first + random() % size]);
    }
  }

  void run(unsigned seed) {
    const SignalGuard signals;
    std::minstd_rand random(seed);
    while (!stop) round(random);
  }

  bool check() {
    for (Read& r : reads) {
      r.wait(b);
      if (r.done_calls > 0 && r.result != 4096) ++wrong;
      if (r.done_calls > 0 && !buffer_holds(r)) ++wrong;
    }
    return wrong == 0 && longest < kForgotten;
  }
  bool buffer_holds(const Read& r) {
    const uint8_t* at = buffer.data() + r.op.offset;
    for (unsigned i = 0; i < 4096; ++i) {
      if (at[i] != content_byte(0, r.op.offset + i)) return false;
    }
    return true;
  }
};

// Counts as success only what must hold whatever the machine's load.
bool report(Stress& s, double seconds) {
  const bool fine = s.check();
  std::printf("%s: %" PRIu64 " waits, %" PRIu64 " reads (%.0f/s), %" PRIu64
              " refused, %" PRIu64 " wrong, longest wait %.3f ms\n",
              s.b.name, s.waits.load(), s.fills.load(),
              static_cast<double>(s.fills.load()) / seconds, s.refused.load(),
              s.wrong.load(), static_cast<double>(s.longest.load()) / 1e6);
  if (std::string(s.b.name) != "uring") return fine;
  const UringStats u = uring_stats(s.b);
  std::printf("  reaps %" PRIu64 " sleeps %" PRIu64 " kicks %" PRIu64
              " unlisted %" PRIu64 " rescues %" PRIu64 "\n",
              u.reaps, u.sleeps, u.kicks, u.overflow, u.rescues);
  return fine && u.rescues == 0 && !s.b.lost(s.b);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "uring";
  const unsigned seconds = argc > 2 ? atoi(argv[2]) : 3;
  const unsigned count = argc > 3 ? atoi(argv[3]) : 8;
  const unsigned seed = argc > 4 ? atoi(argv[4]) : 1;
  BackendPtr b(make(name));
  if (!b) return 77;  // io_uring is refused here
  File file;
  Stress s(*b, b->attach(*b, file.fd));
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < count; ++t) {
    threads.emplace_back([&s, seed, t] { s.run(seed * 1000 + t); });
  }
  for (unsigned i = 0; i < seconds * 100; ++i) {
    usleep(10000);
    b->move_ring_fd(*b);
  }
  s.stop = true;
  for (std::thread& t : threads) t.join();
  return report(s, seconds) ? 0 : 1;
}
