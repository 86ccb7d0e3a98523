// SPDX-License-Identifier: MIT
// The pool of open file descriptions.
//
// Free ones stand in three lists of indices: `ready` (usable), `limbo` (retired
// one by one, no stamp yet) and `waiting` (a batch whose grace period runs, the
// stamp in its first element). A batch is stamped once in kBatch retirements
// and asked about only when `ready` is empty, which keeps the membarrier(2)
// calls behind core/epoch.h rare. All three are lock-free; a thread that dies
// or a process that forks in between loses at most a batch.
#include "preload/open_file.h"

#include <sys/mman.h>
#include <new>

#include "core/epoch.h"
#include "core/sys.h"
#include "preload/position.h"

namespace racache::preload {

Held::Held(int fd) : fd_(fd) {
  for (;;) {
    word_ = own_word(fd);
    if (word_ == 0) return;
    OpenFile& open = open_file(number_of(word_));
    if (pool::pin(open)) {
      // Pinned, but perhaps in another life than the one the slot named.
      if (here()) {
        open_ = &open;
        return;
      }
      pool::unpin(open);
    } else if (here()) {
      return;  // closed between the two looks
    }
  }
}

namespace pool {

constinit OpenFile* files = nullptr;

namespace {

constexpr uint32_t kBatch = 64;

constinit uint32_t capacity = 0;
constinit std::atomic<uint32_t> touched{1};  // 0 names nothing

// A Treiber stack: {tag, index}. The tag makes a head that went and came back
// a different one; reading `next` of an element popped meanwhile is harmless,
// because the memory is never unmapped.
class Stack {
 public:
  void push(uint32_t first, uint32_t last) {
    uint64_t head = head_.load(std::memory_order_relaxed);
    do {
      files[last].next.store(static_cast<uint32_t>(head),
                             std::memory_order_relaxed);
      // Release: the element's contents go before its being found.
    } while (!head_.compare_exchange_weak(head, tagged(head, first),
                                          std::memory_order_release,
                                          std::memory_order_relaxed));
  }
  uint32_t pop() {
    uint64_t head = head_.load(std::memory_order_acquire);
    for (;;) {
      const uint32_t first = static_cast<uint32_t>(head);
      if (first == 0) return 0;
      const uint32_t next = files[first].next.load(std::memory_order_relaxed);
      if (head_.compare_exchange_weak(head, tagged(head, next),
                                      std::memory_order_acquire)) {
        return first;
      }
    }
  }
  uint32_t pop_all() {
    uint64_t head = head_.load(std::memory_order_relaxed);
    while (!head_.compare_exchange_weak(head, tagged(head, 0),
                                        std::memory_order_acquire)) {
    }
    return static_cast<uint32_t>(head);
  }

 private:
  static uint64_t tagged(uint64_t head, uint32_t index) {
    return ((head >> 32) + 1) << 32 | index;
  }
  std::atomic<uint64_t> head_{0};
};

constinit Stack ready;
constinit Stack limbo;
constinit std::atomic<uint32_t> limbo_count{0};
constinit std::atomic<uint32_t> waiting{0};  // taken and put by exchange

uint32_t last_of(uint32_t first) {
  for (;;) {
    const uint32_t next = files[first].next.load(std::memory_order_relaxed);
    if (next == 0) return first;
    first = next;
  }
}

void stamp(OpenFile& first) {
  first.retired = epoch::retire();
  first.retired_process = engine::process_number();
}

// Hands a batch to `waiting`; when one is there already, to limbo again.
void let_wait(uint32_t first) {
  uint32_t none = 0;
  if (!waiting.compare_exchange_strong(none, first)) {
    limbo.push(first, last_of(first));
  }
}

void retire(OpenFile& open) {
  const uint32_t number = static_cast<uint32_t>(&open - files);
  limbo.push(number, number);
  if (limbo_count.fetch_add(1, std::memory_order_relaxed) + 1 < kBatch) return;
  if (waiting.load(std::memory_order_relaxed) != 0) return;
  const uint32_t first = limbo.pop_all();
  if (first == 0) return;
  limbo_count.store(0, std::memory_order_relaxed);
  stamp(files[first]);
  let_wait(first);
}

// Moves the waiting batch to `ready` if its grace period is over. A stamp from
// before a fork means nothing here and is taken anew.
void ripen() {
  if (waiting.load(std::memory_order_relaxed) == 0) return;
  const uint32_t first = waiting.exchange(0);
  if (first == 0) return;
  OpenFile& open = files[first];
  if (open.retired_process != engine::process_number()) stamp(open);
  if (epoch::passed(open.retired)) {
    ready.push(first, last_of(first));
  } else {
    let_wait(first);
  }
}

uint32_t take() {
  uint32_t number = ready.pop();
  if (number != 0) return number;
  ripen();
  number = ready.pop();
  if (number != 0) return number;
  if (touched.load(std::memory_order_relaxed) >= capacity) return 0;
  number = touched.fetch_add(1, std::memory_order_relaxed);
  return number < capacity ? number : 0;
}

// Nobody refers to it any more.
void bury(OpenFile& open) {
  // Relaxed: the last reference was given up by an acquiring exchange.
  File* file = open.file.load(std::memory_order_relaxed);
  if (file != nullptr) {
    open.file.store(nullptr, std::memory_order_relaxed);
    const uint32_t generation = open.generation.load(std::memory_order_relaxed);
    if (generation == engine::generation()) engine::release(*file, generation);
  }
  retire(open);
}

bool refer(OpenFile& open, uint64_t amount) {
  uint64_t seen = open.references.load(std::memory_order_relaxed);
  while (seen != 0) {
    if (open.references.compare_exchange_weak(seen, seen + amount)) return true;
  }
  return false;
}

void unrefer(OpenFile& open, uint64_t amount) {
  if (open.references.fetch_sub(amount) == amount) bury(open);
}

}  // namespace

bool init(uint32_t count) {
  const long mapped = sys::invoke(
      SYS_mmap, 0L, sizeof(OpenFile) * count, PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L);
  if (sys::failed(mapped)) return false;
  // Touched by the few: a huge page would be zeroed for one description.
  sys::invoke(SYS_madvise, mapped, sizeof(OpenFile) * count, MADV_NOHUGEPAGE);
  files = reinterpret_cast<OpenFile*>(mapped);
  capacity = count;
  return true;
}

// Relaxed: nobody knows it before the slot is linked, which publishes it all.
uint32_t allocate() {
  const uint32_t number = take();
  if (number == 0) return 0;
  OpenFile& open = files[number];
  ++open.incarnation;
  open.position.store(position::in_kernel(open.incarnation), kRelaxed);
  open.generation.store(0, kRelaxed);
  open.advice.store(0, kRelaxed);
  open.escape_counted.store(false, kRelaxed);
  open.retry_at_ms.store(0, kRelaxed);
  open.backoff_ms = 0;
  open.adopted_at_ms = 0;
  new (&open.stream) OpenStream{};
  open.status.store(status_now(Stage::kUntried), kRelaxed);
  // A pin that comes by a stale look at a slot finds it complete.
  open.references.store(1, std::memory_order_release);
  return number;
}

bool add_slot(OpenFile& open) { return refer(open, 1); }
bool pin(OpenFile& open) { return refer(open, kPin); }
void drop_slot(OpenFile& open) { unrefer(open, 1); }
// A fork from a signal handler may leave its own thread's pin behind as well.
void unpin(OpenFile& open) {
  if (pins_of(open.references.load()) != 0) unrefer(open, kPin);
}

void forget_threads(OpenFile& open) {
  open.references.fetch_and(kPin - 1);
  new (&open.stream.lock) Lock();
}

}  // namespace pool
}  // namespace racache::preload
