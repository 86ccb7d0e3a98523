// SPDX-License-Identifier: MIT
#include "core/backend_fake.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "core/lock.h"
#include "core/wait_list.h"

namespace racache {
namespace {

struct Pending {
  ReadOp* op;
  FakeFate fate;
  uint64_t due;
};

struct Fake : Backend {
  FakeOptions options;
  std::mutex lock;  // all below; never held while done() runs
  std::vector<Pending> pending;
  unsigned completing = 0;  // taken from there, done() has not returned yet
  std::vector<int> files;  // slot -> descriptor, -1 free
  std::mt19937_64 random;
  uint64_t now = 0;
  uint64_t submitted = 0;
  bool lost = false;
  std::atomic<bool> stop{false};
  std::thread helper;
};

Fake& of(Backend& self) { return static_cast<Fake&>(self); }

FakeFate fate_of(Fake& f, const ReadOp& op) {
  FakeFate fate = {f.options.latency, 0, op.bytes};
  if (f.options.script) f.options.script(f.options.script_user, op, fate);
  if (fate.latency == 0) fate.latency = 1;
  return fate;
}

bool take(Fake& f, ReadOp& op) {
  const std::scoped_lock guard(f.lock);
  if (f.lost || f.pending.size() >= f.options.capacity) return false;
  const FakeFate fate = fate_of(f, op);
  f.pending.push_back({&op, fate, f.now + fate.latency});
  ++f.submitted;
  return true;
}

unsigned submit(Backend& self, ReadOp* const* ops, unsigned n) {
  unsigned taken = 0;
  while (taken < n && take(of(self), *ops[taken])) ++taken;
  return taken;
}

// What is due, in the order in which it shall complete.
std::vector<Pending> due(Fake& f) {
  const std::scoped_lock guard(f.lock);
  ++f.now;
  const auto middle =
      std::stable_partition(f.pending.begin(), f.pending.end(),
                            [&](const Pending& p) { return p.due > f.now; });
  std::vector<Pending> list(middle, f.pending.end());
  f.pending.erase(middle, f.pending.end());
  f.completing += static_cast<unsigned>(list.size());
  switch (f.options.order) {
    case FakeOrder::kFifo:
      break;
    case FakeOrder::kLifo:
      std::reverse(list.begin(), list.end());
      break;
    case FakeOrder::kRandom:
      std::shuffle(list.begin(), list.end(), f.random);
      break;
  }
  return list;
}

uint64_t readable_bytes(const Fake& f, const Pending& p) {
  const uint64_t size = f.options.file_size;
  const uint64_t left = size > p.op->offset ? size - p.op->offset : 0;
  return std::min({p.op->bytes, p.fate.bytes, left});
}

void copy(const Fake& f, int fd, const ReadOp& op, uint64_t bytes) {
  const auto content = f.options.content ? f.options.content : pattern_byte;
  uint64_t at = op.offset;
  const uint64_t end = at + bytes;
  for (unsigned i = 0; i < op.iov_count && at < end; ++i) {
    auto* to = static_cast<uint8_t*>(op.iov[i].iov_base);
    for (size_t k = 0; k < op.iov[i].iov_len && at < end; ++k) {
      to[k] = content(fd, at++);
    }
  }
}

int file_of(Fake& f, unsigned slot) {
  const std::scoped_lock guard(f.lock);
  return slot < f.files.size() ? f.files[slot] : -1;
}

void complete(Fake& f, const Pending& p) {
  const int fd = file_of(f, p.op->slot);
  long result = fd < 0 ? -EBADF : p.fate.error;
  if (result == 0) {
    const uint64_t bytes = readable_bytes(f, p);
    if (!f.options.no_content) copy(f, fd, *p.op, bytes);
    result = static_cast<long>(bytes);
  }
  p.op->done(*p.op, result);
  const std::scoped_lock guard(f.lock);
  --f.completing;
}

bool someone_steps(Fake& f) {
  return f.helper.joinable() || !f.options.step_in_wait;
}

void wait(Backend& self, std::atomic<uint32_t>& word, uint32_t mask) {
  Fake& f = of(self);
  while (busy(word, mask)) {
    if (someone_steps(f)) return wait_without_reaper(word, mask);
    // Nothing completed: the word may be another thread's business.
    if (fake_step(f) == 0) sys::invoke(SYS_sched_yield);
  }
}

void poll(Backend&) {}

int attach(Backend& self, int fd) {
  Fake& f = of(self);
  const std::scoped_lock guard(f.lock);
  const auto free = std::find(f.files.begin(), f.files.end(), -1);
  const auto slot = free - f.files.begin();
  if (free == f.files.end()) f.files.push_back(-1);
  f.files[static_cast<size_t>(slot)] = fd;
  return static_cast<int>(slot);
}
void detach(Backend& self, int slot) {
  Fake& f = of(self);
  const std::scoped_lock guard(f.lock);
  f.files[static_cast<size_t>(slot)] = -1;
}
int ring_fd(Backend&) { return -1; }
bool move_ring_fd(Backend&) { return false; }
bool is_lost(Backend& self) {
  const std::scoped_lock guard(of(self).lock);
  return of(self).lost;
}

void destroy(Backend& self) {
  Fake* f = &of(self);
  f->stop.store(true, std::memory_order_relaxed);
  if (f->helper.joinable()) f->helper.join();
  delete f;
}

}  // namespace

Backend* make_fake(const FakeOptions& options) {
  Fake* f = new Fake;
  static_cast<Backend&>(*f) = {
      .name = "fake",
      .submit = submit,
      .wait = wait,
      .poll = poll,
      .attach = attach,
      .detach = detach,
      .ring_fd = ring_fd,
      .move_ring_fd = move_ring_fd,
      .lost = is_lost,
      .quiesce = poll,
      .close = nullptr,
      .destroy = destroy,
  };
  f->options = options;
  f->random.seed(options.seed);
  return f;
}

unsigned fake_step(Backend& backend) {
  const SignalGuard signals;  // done() is promised blocked signals
  const std::vector<Pending> list = due(of(backend));
  for (const Pending& p : list) complete(of(backend), p);
  return static_cast<unsigned>(list.size());
}

unsigned fake_in_flight(Backend& backend) {
  const std::scoped_lock guard(of(backend).lock);
  return static_cast<unsigned>(of(backend).pending.size()) +
         of(backend).completing;
}

uint64_t fake_submitted(Backend& backend) {
  const std::scoped_lock guard(of(backend).lock);
  return of(backend).submitted;
}

void fake_start_helper(Backend& backend, unsigned period_us) {
  Fake& f = of(backend);
  f.helper = std::thread([&f, period_us] {
    while (!f.stop.load(std::memory_order_relaxed)) {
      fake_step(f);
      nap(uint64_t{period_us} * 1000 + 1);
    }
  });
}

void fake_lose(Backend& backend) {
  const std::scoped_lock guard(of(backend).lock);
  of(backend).lost = true;
}

uint8_t pattern_byte(int fd, uint64_t offset) {
  // Differs between neighbouring bytes, pages, large folios and files.
  uint64_t x = (offset >> 3) * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(fd);
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9u;
  return static_cast<uint8_t>(x >> (8 * (offset & 7)));
}

}  // namespace racache
