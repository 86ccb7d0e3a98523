// SPDX-License-Identifier: MIT
// The cache trusts every backend to the letter of core/backend.h: each read
// finishes once, with the right bytes, and no waiter is left asleep. These
// tests hold all three backends to the same contract.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <random>

#include "tests/unit/backend_fixture.h"

using namespace racache;
using namespace racache::test;

namespace {

template <class F>
void for_each_backend(F f) {
  for (const char* name : {"uring", "threads", "fake"}) {
    CAPTURE(name);
    BackendPtr b(make(name));
    REQUIRE(b);
    CHECK(std::string(b->name) == name);
    f(*b);
  }
}

}  // namespace

TEST_CASE("bytes are right, in one piece and in several") {
  File file;
  for_each_backend([&](Backend& b) {
    const int slot = b.attach(b, file.fd);
    REQUIRE(slot >= 0);
    for (unsigned pieces : {1u, 2u, 4u}) {
      Buffer buffer(64 << 10);
      Read r;
      r.prepare(slot, 1 << 20, buffer.data(), buffer.size(), pieces);
      REQUIRE(r.submit(b));
      r.wait(b);
      CHECK(r.result == 64 << 10);
      CHECK(r.done_calls == 1);
      CHECK(buffer.holds(1 << 20, 64 << 10));
    }
    b.detach(b, slot);
  });
}

TEST_CASE("a read at the end is short, one beyond it empty") {
  File file;
  for_each_backend([&](Backend& b) {
    const int slot = b.attach(b, file.fd);
    Buffer buffer(8192);
    Read r;
    r.prepare(slot, 8 << 20, buffer.data(), 8192);
    REQUIRE(r.submit(b));
    r.wait(b);
    CHECK(r.result == 1000);
    CHECK(buffer.holds(8 << 20, 1000));
    r.prepare(slot, (8 << 20) + 8192, buffer.data(), 8192);
    REQUIRE(r.submit(b));
    r.wait(b);
    CHECK(r.result == 0);
    b.detach(b, slot);
  });
}

TEST_CASE("an error reaches done()") {
  for_each_backend([&](Backend& b) {
    Buffer buffer(4096);
    Read r;
    r.prepare(4000, 0, buffer.data(), 4096);  // nobody attached that
    REQUIRE(r.submit(b));
    r.wait(b);
    CHECK(r.result == -EBADF);
    CHECK(r.done_calls == 1);
  });
}

TEST_CASE("a detached slot can be attached again") {
  File file;
  for_each_backend([&](Backend& b) {
    for (int i = 0; i < 50; ++i) {
      const int slot = b.attach(b, file.fd);
      REQUIRE(slot >= 0);
      Buffer buffer(4096);
      Read r;
      r.prepare(slot, 4096u * static_cast<unsigned>(i), buffer.data(), 4096);
      REQUIRE(r.submit(b));
      r.wait(b);
      CHECK(r.result == 4096);
      b.detach(b, slot);
    }
  });
}

namespace {

// done() that goes on reading, a page at a time.
struct Chain {
  Backend* backend;
  Read read;
  uint64_t left;
  static void on_done(ReadOp& op, long result) {
    Chain& c = *static_cast<Chain*>(op.user);
    c.read.result = result;
    if (result != 4096 || --c.left == 0) return Read::end(c.read.word);
    op.offset += 4096;
    if (!c.read.submit(*c.backend)) Read::end(c.read.word);
  }
};

}  // namespace

TEST_CASE("done() may submit") {
  File file;
  for_each_backend([&](Backend& b) {
    Buffer buffer(4096);
    Chain c{&b, {}, 300};
    c.read.prepare(b.attach(b, file.fd), 0, buffer.data(), 4096);
    c.read.op.user = &c;
    c.read.op.done = Chain::on_done;
    REQUIRE(c.read.submit(b));
    c.read.wait(b);
    CHECK(c.left == 0);
    CHECK(buffer.holds(299 * 4096, 4096));
  });
}

TEST_CASE("what is taken finishes once; what is not taken never runs") {
  File file;
  for_each_backend([&](Backend& b) {
    const int slot = b.attach(b, file.fd);
    constexpr unsigned kReads = 4000;  // more than any backend takes
    Buffer buffer(4096);
    std::vector<Read> reads(kReads);
    std::vector<ReadOp*> ops;
    for (Read& r : reads) {
      r.prepare(slot, 0, buffer.data(), 4096);
      ops.push_back(&r.op);
    }
    const unsigned taken = b.submit(b, ops.data(), kReads);
    CHECK(taken >= 16);
    for (unsigned i = 0; i < taken; ++i) reads[i].wait(b);
    b.quiesce(b);
    unsigned finished = 0, repeated = 0;
    for (unsigned i = 0; i < kReads; ++i) {
      finished += reads[i].done_calls == 1;
      repeated += reads[i].done_calls > 1;
      if (i >= taken) CHECK(reads[i].done_calls == 0);
    }
    CHECK(finished == taken);
    CHECK(repeated == 0);
  });
}

TEST_CASE("poll() or quiesce() alone finishes reads that nobody waits for") {
  File file;
  for_each_backend([&](Backend& b) {
    Buffer buffer(32 * 4096);
    std::vector<Read> reads(32);
    const int slot = b.attach(b, file.fd);
    for (unsigned i = 0; i < 32; ++i) {
      reads[i].prepare(slot, i * 4096, buffer.data() + i * 4096, 4096);
      REQUIRE(reads[i].submit(b));
    }
    b.quiesce(b);
    const uint64_t end = sys::monotonic_ns() + 5000000000;
    for (Read& r : reads) {
      while (busy(r.word, Folio::kFilling) && sys::monotonic_ns() < end) {
        const SignalGuard signals;
        b.poll(b);
        usleep(10);
      }
      CHECK(r.result == 4096);
    }
    CHECK(buffer.holds(0, buffer.size()));
  });
}

TEST_CASE("a word cleared by someone else ends the wait") {
  for_each_backend([&](Backend& b) {
    uint64_t best = ~uint64_t{0};  // of a few: the machine may be busy
    for (int i = 0; i < 10 && best >= 50; ++i) {
      std::atomic<uint32_t> word{Folio::kFilling};
      Waiter waiter(b, word);
      settle();
      Read::end(word);
      best = std::min(best, waiter.join());
    }
    CHECK(best < 50);
  });
}

namespace {

// Threads that fill and await a small set of shared pages: most waits are for
// a read that another thread submitted.
struct Shared {
  static constexpr unsigned kPages = 32;
  Backend& b;
  Buffer buffer{kPages * 4096};
  Read reads[kPages];
  std::atomic<uint64_t> bad{0}, fills{0}, longest{0};

  Shared(Backend& backend, int slot) : b(backend) {
    for (unsigned i = 0; i < kPages; ++i) {
      reads[i].prepare(slot, i * 4096, buffer.data() + i * 4096, 4096);
      reads[i].word.store(0);
    }
  }
  void visit(unsigned page) {
    Read& r = reads[page];
    uint32_t seen = r.word.load(std::memory_order_acquire);
    const uint32_t generation = (seen + Folio::kGenerationOne) & 0xffff0000u;
    if ((seen & Folio::kFilling) == 0 &&
        r.word.compare_exchange_strong(seen, generation | Folio::kFilling)) {
      fill(r);
    }
    const uint64_t begin = sys::monotonic_ns();
    b.wait(b, r.word, Folio::kFilling);
    const uint64_t took = sys::monotonic_ns() - begin;
    uint64_t old = longest.load();
    while (old < took && !longest.compare_exchange_weak(old, took)) {
    }
  }
  void fill(Read& r) {
    fills.fetch_add(1);
    if (r.submit(b)) return;
    bad.fetch_add(1);
    Read::end(r.word);
  }
  void run(unsigned seed, unsigned rounds) {
    const SignalGuard signals;
    std::minstd_rand random(seed);
    for (unsigned i = 0; i < rounds; ++i) visit(random() % kPages);
  }
};

}  // namespace

TEST_CASE("many threads wait for each other's reads") {
  File file;
  for_each_backend([&](Backend& b) {
    Shared s(b, b.attach(b, file.fd));
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 8; ++t) {
      threads.emplace_back([&s, t] { s.run(t + 1, 1500); });
    }
    for (std::thread& t : threads) t.join();
    CHECK(s.bad == 0);
    CHECK(s.buffer.holds(0, s.buffer.size()));
    uint64_t done = 0;
    for (const Read& r : s.reads) {
      done += static_cast<uint64_t>(r.done_calls.load());
      if (r.done_calls > 0) CHECK(r.result == 4096);
    }
    CHECK(done == s.fills);
    CHECK(s.longest < kSoon * 1000000);
    if (std::string(b.name) == "uring") CHECK(uring_stats(b).rescues == 0);
  });
}

TEST_CASE("threads: without workers nothing is taken") {
  auto made = make_threads({});
  REQUIRE(made);
  BackendPtr b(*made);
  Buffer buffer(4096);
  Read r;
  r.prepare(0, 0, buffer.data(), 4096);
  CHECK(!r.submit(*b));
  CHECK(r.done_calls == 0);
  CHECK(threads_start_workers(*b) == 4);
  CHECK(r.submit(*b));
  r.wait(*b);
}

namespace {

std::vector<uint64_t> fake_order(FakeOrder order, uint64_t seed) {
  FakeOptions options;
  options.order = order;
  options.seed = seed;
  BackendPtr b(make_fake(options));
  static std::vector<uint64_t> seen;
  seen.clear();
  Buffer buffer(4096);
  Read reads[8];
  const int slot = b->attach(*b, 3);
  for (unsigned i = 0; i < 8; ++i) {
    reads[i].prepare(slot, i * 4096, buffer.data(), 4096);
    reads[i].op.done = [](ReadOp& op, long) {
      seen.push_back(op.offset / 4096);
    };
    reads[i].submit(*b);
  }
  fake_step(*b);
  return seen;
}

}  // namespace

TEST_CASE("fake: completion order") {
  using Order = std::vector<uint64_t>;
  CHECK(fake_order(FakeOrder::kFifo, 1) == Order{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(fake_order(FakeOrder::kLifo, 1) == Order{7, 6, 5, 4, 3, 2, 1, 0});
  const Order once = fake_order(FakeOrder::kRandom, 5);
  CHECK(once == fake_order(FakeOrder::kRandom, 5));
  CHECK(once != fake_order(FakeOrder::kRandom, 6));
}

TEST_CASE("fake: script of latency, errors and short reads") {
  FakeOptions options;
  options.script = [](void*, const ReadOp& op, FakeFate& fate) {
    if (op.offset == 0) fate.latency = 3;
    if (op.offset == 4096) fate.error = -EIO;
    if (op.offset == 8192) fate.bytes = 512;
  };
  BackendPtr b(make_fake(options));
  Buffer buffer(4096);
  Read reads[3];
  const int slot = b->attach(*b, 3);
  for (unsigned i = 0; i < 3; ++i) {
    reads[i].prepare(slot, i * 4096, buffer.data(), 4096);
    REQUIRE(reads[i].submit(*b));
  }
  CHECK(fake_step(*b) == 2);
  CHECK(reads[1].result == -EIO);
  CHECK(reads[2].result == 512);
  CHECK(fake_in_flight(*b) == 1);
  CHECK(fake_step(*b) == 0);
  reads[0].wait(*b);  // steps by itself
  CHECK(reads[0].result == 4096);
  CHECK(fake_submitted(*b) == 3);
  fake_lose(*b);
  CHECK(b->lost(*b));
  CHECK(!reads[0].submit(*b));
}
