// SPDX-License-Identifier: MIT
// What the tests of the backends share: reads with a word to wait on, a file
// of known content, buffers fit for O_DIRECT.
#pragma once

#include <fcntl.h>
#include <unistd.h>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/backend.h"
#include "core/backend_fake.h"
#include "core/backend_threads.h"
#include "core/backend_uring.h"
#include "core/folio.h"
#include "core/lock.h"
#include "core/wait_list.h"

namespace racache::test {

inline uint8_t content_byte(int, uint64_t offset) {
  return pattern_byte(7, offset);
}

class Buffer {
 public:
  explicit Buffer(size_t size)
      : data_(static_cast<uint8_t*>(std::aligned_alloc(4096, size))),
        size_(size) {
    std::memset(data_, 0xee, size);
  }
  ~Buffer() { std::free(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  uint8_t* data() { return data_; }
  size_t size() const { return size_; }
  // Whether the first `bytes` are those of the file at `offset`.
  bool holds(uint64_t offset, size_t bytes) const {
    for (size_t i = 0; i < bytes; ++i) {
      if (data_[i] != content_byte(0, offset + i)) return false;
    }
    return true;
  }

 private:
  uint8_t* data_;
  size_t size_;
};

// One read of up to 4 pieces, its word, and what became of it.
struct Read {
  ReadOp op = {};
  iovec iov[4] = {};
  std::atomic<uint32_t> word{0};
  std::atomic<int> done_calls{0};
  long result = -1;

  void prepare(int slot, uint64_t offset, uint8_t* to, size_t bytes,
               unsigned pieces = 1) {
    for (unsigned i = 0; i < pieces; ++i) {
      iov[i] = {to + i * (bytes / pieces), bytes / pieces};
    }
    op = {};
    op.slot = static_cast<uint32_t>(slot);
    op.iov_count = pieces;
    op.offset = offset;
    op.iov = iov;
    op.bytes = bytes;
    op.done = on_done;
    op.user = this;
    done_calls.store(0, std::memory_order_relaxed);
    word.store(Folio::kFilling, std::memory_order_relaxed);
  }
  bool submit(Backend& b) {
    ReadOp* one = &op;
    return b.submit(b, &one, 1) == 1;
  }
  void wait(Backend& b) {
    const SignalGuard signals;
    b.wait(b, word, Folio::kFilling);
  }
  // As a folio's completion would; the waiter may be gone right after.
  static void end(std::atomic<uint32_t>& word) {
    const uint32_t old =
        word.fetch_xor(Folio::kFilling, std::memory_order_acq_rel);
    if (old & Folio::kWaiters) sys::futex_wake(&word, sys::kWakeAll);
  }
  static void on_done(ReadOp& op, long result) {
    Read& r = *static_cast<Read*>(op.user);
    r.result = result;
    r.done_calls.fetch_add(1, std::memory_order_relaxed);
    end(r.word);
  }
};

// So long does a waiter sleep whom nobody wakes: a sleeper that was forgotten
// is told from a slow machine by the order of magnitude.
constexpr uint64_t kForgotten = 30'000'000'000;  // ns
constexpr uint64_t kSoon = 10'000;               // ms

constexpr size_t kFileSize = (8 << 20) + 1000;

// A temporary file of content_byte()s, open with O_DIRECT.
class File {
 public:
  File() {
    char name[] = "/tmp/racache-backend-XXXXXX";
    const int out = mkstemp(name);
    std::vector<uint8_t> bytes(kFileSize);
    for (size_t i = 0; i < kFileSize; ++i) bytes[i] = content_byte(0, i);
    if (write(out, bytes.data(), kFileSize) != ssize_t{kFileSize}) abort();
    fsync(out);
    fd = open(name, O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (fd < 0) fd = open(name, O_RDONLY | O_CLOEXEC);  // tmpfs before 6.6
    unlink(name);
    close(out);
  }
  ~File() { close(fd); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd;
};

inline Backend* make(const std::string& name, int64_t poll_us = -1) {
  if (name == "uring") {
    UringOptions options;
    options.poll_us = poll_us;
    options.sleep_ns = kForgotten;
    auto made = make_uring(options);
    return made ? *made : nullptr;
  }
  if (name == "threads") {
    auto made = make_threads({});
    if (made) threads_start_workers(**made);
    return made ? *made : nullptr;
  }
  FakeOptions options;
  options.order = FakeOrder::kRandom;
  options.content = content_byte;
  options.file_size = kFileSize;
  options.step_in_wait = false;
  Backend* fake = make_fake(options);
  fake_start_helper(*fake, 20);
  return fake;
}

struct Destroy {
  void operator()(Backend* b) const { b->destroy(*b); }
};
using BackendPtr = std::unique_ptr<Backend, Destroy>;

inline void settle() { usleep(20000); }  // until other threads sleep

// A read of a pipe: in flight until the test writes into it. For the ring.
class SlowRead {
 public:
  explicit SlowRead(Backend& b) : backend_(b) {
    if (pipe2(pipe_, O_CLOEXEC) != 0) abort();
    slot_ = b.attach(b, pipe_[0]);
    read.prepare(slot_, 0, bytes_, sizeof bytes_);
  }
  ~SlowRead() {
    backend_.detach(backend_, slot_);
    close(pipe_[0]);
    close(pipe_[1]);
  }
  SlowRead(const SlowRead&) = delete;
  SlowRead& operator=(const SlowRead&) = delete;
  void finish() const {
    if (write(pipe_[1], "abcdefgh", 8) != 8) abort();
  }
  Read read;

 private:
  Backend& backend_;
  int pipe_[2];
  int slot_;
  uint8_t bytes_[8];
};

// A thread in wait(); join() tells how many ms passed until it returned.
class Waiter {
 public:
  Waiter(Backend& b, std::atomic<uint32_t>& word)
      : thread_([&b, &word] {
          const SignalGuard signals;
          b.wait(b, word, Folio::kFilling);
        }) {}
  uint64_t join() {
    const uint64_t begin = sys::monotonic_ns();
    thread_.join();
    return (sys::monotonic_ns() - begin) / 1000000;
  }

 private:
  std::thread thread_;
};

inline bool reads_well(Backend& b, int slot) {
  Buffer buffer(16384);
  Read r;
  r.prepare(slot, 4096, buffer.data(), 16384, 2);
  if (!r.submit(b)) return false;
  r.wait(b);
  return r.result == 16384 && buffer.holds(4096, 16384);
}

}  // namespace racache::test
