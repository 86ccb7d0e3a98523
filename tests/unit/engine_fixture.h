// SPDX-License-Identifier: MIT
// A real engine over the fake backend: cache, fill, index, arena and evictor as
// they are, without a service thread, leases or a device. What a test would
// have to wait for (completions, the rest of a hint) it sets going itself.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/backend_fake.h"
#include "core/engine.h"
#include "core/hit.h"
#include "core/lease_watch.h"

namespace racache {

class EngineFixture {
 public:
  struct Options {
    uint64_t arena_bytes = 128 << 20;
    uint32_t ops = 4096;
    uint64_t metadata_bytes = 1 << 20;
    FakeOptions backend;
  };

  explicit EngineFixture(const Options& options)
      : engine_(std::make_unique<Engine>()) {
    REQUIRE(epoch::init());
    Engine& e = *engine_;
    files_.reset(new File[2]{});
    e.files = files_.get();
    REQUIRE(e.arena.init(options.arena_bytes, HugePages::kNever));
    REQUIRE(e.metadata.init(options.metadata_bytes));
    REQUIRE(e.evictor.policy().init(e.config.evict, e.arena));
    REQUIRE(e.ops.init(options.ops));
    e.backend = make_fake(options.backend);
    e.background.prepare(e);
    e.service.prepare(e);
    e.pid = sys::getpid();
    // There are no leases here to lose.
    lease_watch::looked(sys::coarse_ns(), uint64_t{1} << 62);
  }
  ~EngineFixture() {
    recent::settle(nullptr);
    engine_->backend->destroy(*engine_->backend);
    engine_->ops.destroy();
    engine_->evictor.policy().destroy();
    engine_->metadata.destroy();
    engine_->arena.destroy();
  }
  EngineFixture(const EngineFixture&) = delete;
  EngineFixture& operator=(const EngineFixture&) = delete;

  Engine& engine() { return *engine_; }
  Backend& backend() { return *engine_->backend; }

  // As adoption leaves it; `number` 0 or 1. False: no memory for the index.
  bool adopt(uint32_t number, uint64_t size, uint32_t ra_pages,
             uint32_t io_pages) {
    File& f = engine_->files[number];
    f.number = number;
    f.engine = engine_.get();
    f.size = size;
    f.plain_size = engine_->config.verify == 0 ? size : 0;
    f.pages = pages_of(size);
    f.ra_pages = ra_pages;
    f.io_pages = io_pages;
    f.direct_fd = f.buffered_fd = f.buffered_slot = -1;
    if (!f.index.init(f.pages, engine_->metadata)) return false;
    f.direct_slot = engine_->backend->attach(backend(), kFd + f.number);
    f.references.store(1);
    engine_->files_used.store(number + 1);
    f.state.store(File::State::kLeased);
    return true;
  }
  File& file(uint32_t number = 0) { return engine_->files[number]; }

  // As open(2) leaves it.
  void open(OpenStream& stream, uint32_t number = 0) {
    stream.reader.store(nullptr);
    stream.stream = {};
    stream.stream.ra_pages = file(number).ra_pages;
    stream.in_order = 0;
  }

  // Everything in flight and every hint comes to its end.
  void settle() {
    do {
      while (fake_in_flight(backend()) != 0) fake_step(backend());
    } while (engine_->background.pump_hints());
    while (fake_in_flight(backend()) != 0) fake_step(backend());
  }

  // The file goes, and with it all that was its own.
  void forget(uint32_t number = 0) {
    File& f = file(number);
    settle();
    f.state.store(File::State::kBroken);
    engine_->evictor.drop(*engine_, f, 0, f.pages);
    for (int i = 0; i < 3; ++i) engine_->evictor.sweep(*engine_);
    f.index.destroy();
    f.state.store(File::State::kFree);
    engine_->backend->detach(backend(), f.direct_slot);
  }

  // Nothing is owned by anyone: neither memory, but for what a test expects to
  // be `lost`, nor reads.
  void check_nothing_leaked(uint64_t lost = 0) {
    Engine& e = *engine_;
    CHECK(e.arena.free_pages() + lost == e.arena.block_count() * kBlockPages);
    CHECK(e.ops.idle());
    CHECK(e.metadata.used() == 0);
    for (uint32_t n = 0; n < 2; ++n) CHECK(e.files[n].in_flight.load() == 0);
  }

  // Reads as the interposer does: a plain hit, the fast half, the slow one.
  cache::ReadResult read(OpenStream& stream, uint64_t offset, size_t bytes,
                         uint32_t number = 0) {
    buffer_.assign(bytes, '\xee');
    iovec iov[3];
    const int count = split(iov, bytes);
    cache::ReadResult r{};
    {
      ThreadSlot& slot = *epoch::self();
      const epoch::Section section(slot);
      const size_t hit = count != 1
                             ? 0
                             : cache::Plain::hit(file(number), stream, slot,
                                                 iov->iov_base, bytes, offset);
      if (hit != 0) return {hit, true};
      r = cache::read_hit(file(number), stream, iov, count, offset);
    }
    if (r.complete) return r;
    return cache::read(file(number), stream, iov, count, offset, -1, r.done);
  }
  // Whether the first `bytes` of the last read are the file's.
  bool right(uint64_t offset, size_t bytes, uint32_t number = 0) const {
    for (size_t i = 0; i < bytes; ++i) {
      if (static_cast<uint8_t>(buffer_[i]) != content(number, offset + i)) {
        return false;
      }
    }
    return true;
  }

  // Differs between pages, folios and files, and is cheap to make.
  static uint8_t content(int fd, uint64_t offset) {
    return static_cast<uint8_t>((offset ^ offset >> 12) * 31 + (offset >> 17) +
                                static_cast<uint64_t>(fd % 2) * 101);
  }
  static Counters& counters() { return epoch::self()->counters; }

 private:
  static constexpr int kFd = 1000;  // even: content() of file n is that of n

  // Now and then in pieces, so that pages and buffers end at different places.
  int split(iovec* iov, size_t bytes) {
    const size_t piece = ++reads_ % 3 == 0 ? bytes / 3 : 0;
    char* at = buffer_.data();
    int count = 0;
    if (piece != 0) iov[count++] = {at, piece};
    if (piece != 0) iov[count++] = {at + piece, 0};
    iov[count++] = {at + piece, bytes - piece};
    return count;
  }

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<File[]> files_;
  std::vector<char> buffer_;
  unsigned reads_ = 0;
};

}  // namespace racache
