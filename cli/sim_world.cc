// SPDX-License-Identifier: MIT
#include "cli/sim_world.h"

#include <fcntl.h>
#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>

#include "core/backend_fake.h"
#include "core/engine.h"
#include "core/fill.h"
#include "core/lock.h"
#include "core/recent.h"

namespace racache::cli {
namespace {

constexpr uint64_t kBufferBytes = 1 << 20;

Counters operator-(Counters a, const Counters& b) {
#define RACACHE_X(name) a.name = a.name - b.name;
  RACACHE_COUNTERS(RACACHE_X)
#undef RACACHE_X
  for (unsigned o = 0; o < kOrders; ++o) {
    a.inserted_by_order[o] = a.inserted_by_order[o] - b.inserted_by_order[o];
  }
  return a;
}

void require(bool ok) {
  if (!ok) throw std::bad_alloc();
}

ThreadSlot& slot() {
  require(epoch::init());
  ThreadSlot* mine = epoch::self();
  require(mine != nullptr);
  return *mine;
}

void count_uncached(Counters& counters) {
  ++counters.read_calls;
  ++counters.kernel_fallbacks;
}

double ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0
                    : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

double SimResult::hit_ratio() const {
  return ratio(counters.hits, counters.read_calls);
}
double SimResult::uncached() const {
  return ratio(counters.kernel_fallbacks, counters.read_calls);
}
double SimResult::over_fetch() const {
  // Pages are used as a whole; a file's last one may be read in part.
  const uint64_t used = std::min(counters.used_bytes, counters.device_bytes);
  return ratio(counters.device_bytes - used, counters.device_bytes);
}

struct SimWorld::Parts {
  explicit Parts(const SimOptions& o) : options(o) {}

  const SimOptions options;
  racache::Engine engine{};
  std::unique_ptr<racache::File[]> files;
  std::vector<OpenStream> streams;
  std::vector<uint8_t> opened;  // by description
  std::vector<char> buffer = std::vector<char>(kBufferBytes);

  void read(racache::File& file, OpenStream& stream, const TraceEvent& event);
  void willneed(racache::File& file, OpenStream& stream,
                const TraceEvent& event);
};

namespace {

void set_up(racache::Engine& engine, const SimOptions& options) {
  engine.config.max_order = options.max_order;
  engine.config.evict = options.evict;
  require(engine.arena.init(options.cache_bytes, HugePages::kAuto).has_value());
  EvictionPolicy& policy = engine.evictor.policy();
  require(policy.init(options.evict, engine.arena));
  const uint64_t limit = engine.arena.limit();
  const uint64_t taken =
      (limit >> kPageShift) * sizeof(Folio) + policy.metadata_bytes();
  const uint64_t budget = Metadata::budget(limit, taken);
  require(engine.metadata.init(budget).has_value());
  require(engine.ops.init(512).has_value());
  FakeOptions fake;
  fake.no_content = true;
  engine.backend = make_fake(fake);
}

// A file for whose index there is no memory is left without an engine, and is
// read uncached.
void set_up(racache::File& file, racache::Engine& engine, uint32_t number,
            const SimOptions& options) {
  file.pages = pages_of(file.size);
  if (!file.index.init(file.pages, engine.metadata).has_value()) return;
  file.engine = &engine;
  file.number = number;
  file.inode = number + 1;
  file.ra_pages = static_cast<uint32_t>(options.read_ahead_kb / 4);
  file.io_pages = static_cast<uint32_t>(options.io_kb / 4);
  file.direct_slot =
      engine.backend->attach(*engine.backend, static_cast<int>(number));
  file.buffered_slot = -1;
  file.references.store(1);
  file.state.store(racache::File::State::kLeased);
}

}  // namespace

SimWorld::SimWorld(const SimOptions& options,
                   const std::vector<uint64_t>& file_sizes,
                   uint32_t descriptions)
    : parts_(new Parts(options)) {
  (void)slot();
  racache::Engine& engine = parts_->engine;
  set_up(engine, options);
  const size_t count = file_sizes.size();
  parts_->files.reset(new racache::File[count]());
  engine.files = parts_->files.get();
  for (size_t i = 0; i < count; ++i) engine.files[i].size = file_sizes[i];
  engine.files_used.store(static_cast<uint32_t>(count));
  parts_->streams = std::vector<OpenStream>(descriptions);
  parts_->opened.resize(descriptions);
}

SimWorld::~SimWorld() {
  recent::settle(nullptr);
  racache::Engine& engine = parts_->engine;
  while (fake_in_flight(*engine.backend) != 0) fake_step(*engine.backend);
  engine.backend->destroy(*engine.backend);
  engine.evictor.policy().destroy();
  engine.metadata.destroy();
  engine.arena.destroy();
  engine.ops.destroy();
}

racache::Engine& SimWorld::engine() { return parts_->engine; }
racache::File& SimWorld::file(uint32_t number) { return parts_->files[number]; }

// As the interposer does it: the fast half, then the whole.
void SimWorld::Parts::read(racache::File& file, OpenStream& stream,
                           const TraceEvent& event) {
  std::vector<iovec> iov;
  for (uint64_t left = event.length; left != 0;) {
    const uint64_t n = std::min<uint64_t>(left, buffer.size());
    iov.push_back({buffer.data(), n});
    left -= n;
  }
  const int count = static_cast<int>(iov.size());
  cache::ReadResult result{};
  {
    epoch::Section section(slot());
    result = cache::read_hit(file, stream, iov.data(), count, event.offset);
  }
  if (result.complete) return;
  (void)cache::read(file, stream, iov.data(), count, event.offset, -1,
                    result.done);
}

// The background thread's part is done here, without waiting.
void SimWorld::Parts::willneed(racache::File& file, OpenStream&,
                               const TraceEvent& event) {
  PageIndex page = event.offset >> kPageShift;
  PageIndex end = file.pages;
  if (event.length != 0) {
    end = std::min(end, pages_of(event.offset + event.length));
  }
  const SignalGuard signals;
  while (page < end) {
    const PageIndex next = fill::force(file, page, end, -1);
    if (next == page && fake_step(*engine.backend) == 0) break;
    page = next;
  }
}

void SimWorld::play(const TraceEvent& event) {
  racache::File& file = parts_->files[event.file];
  if (file.size == 0) return;
  if (file.pages == 0)
    set_up(file, parts_->engine, event.file, parts_->options);
  if (file.engine == nullptr) {
    if (event.hint == Hint::kRead) count_uncached(slot().counters);
    return;
  }
  OpenStream& stream = parts_->streams[event.description];
  uint8_t& opened = parts_->opened[event.description];
  if (opened == 0 || event.hint == Hint::kOpen) {
    stream.stream = {};
    stream.stream.ra_pages = file.ra_pages;
    opened = 1;
  }
  switch (event.hint) {
    case Hint::kRead:
      parts_->read(file, stream, event);
      break;
    case Hint::kOpen:
      break;
    case Hint::kWillneed:
      parts_->willneed(file, stream, event);
      break;
    case Hint::kDontneed:
      cache::dontneed(file, event.offset, event.length);
      break;
    case Hint::kNormal:
      cache::advise(file, stream, POSIX_FADV_NORMAL);
      break;
    case Hint::kRandom:
      cache::advise(file, stream, POSIX_FADV_RANDOM);
      break;
    case Hint::kSequential:
      cache::advise(file, stream, POSIX_FADV_SEQUENTIAL);
      break;
    case Hint::kNoreuse:
      cache::advise(file, stream, POSIX_FADV_NOREUSE);
      break;
  }
  fake_step(*parts_->engine.backend);  // what was read ahead arrives
}

SimResult simulate(const Trace& trace, const SimOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<uint64_t> sizes;
  for (const TracedFile& file : trace.files) sizes.push_back(file.size);
  SimWorld world(options, sizes, trace.descriptions);
  const Counters before = slot().counters;
  SimResult result{};
  const Arena& arena = world.engine().arena;
  for (const TraceEvent& event : trace.events) {
    world.play(event);
    const uint64_t used = arena.limit() - (arena.free_pages() << kPageShift);
    result.most_used_bytes = std::max(result.most_used_bytes, used);
  }
  recent::settle(nullptr);  // what the last hits kept to themselves
  result.counters = slot().counters - before;
  result.metadata_bytes = world.engine().metadata.touched() +
                          arena.metadata_bytes() +
                          world.engine().evictor.policy().metadata_bytes();
  result.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
  return result;
}

}  // namespace racache::cli
