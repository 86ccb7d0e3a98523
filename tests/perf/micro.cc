// SPDX-License-Identifier: MIT
// The engine's parts by themselves: what a hit, a lookup, a section, a fill, an
// adoption and the question "is this number ours?" cost. For comparing two
// versions of the code on one machine; what a program gains, harness.py says.
//
// The engine is the real one, on files in the current directory; for fills its
// backend is replaced by one that has every byte at once.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/copy.h"
#include "core/engine.h"
#include "core/hit.h"
#include "preload/fd_table.h"
#include "preload/hit.h"
#include "preload/serve.h"
#include "unit/ready_preload.h"

using namespace racache;
namespace serve = racache::preload::serve;

namespace {

constexpr size_t kMiB = 1 << 20;

void start_engine() {
  static const bool started = [] {
    if (!epoch::init()) return false;
    Config config;
    config.size_bytes = 256 * kMiB;
    engine::configure(config);
    return true;
  }();
  benchmark::DoNotOptimize(started);
}

class TestFile {
 public:
  explicit TestFile(size_t size) {
    static int serial = 0;
    path_ = "perf_micro." + std::to_string(getpid()) + "." +
            std::to_string(++serial);
    const int out = open(path_.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    const std::vector<char> piece(kMiB, 'x');
    for (size_t done = 0; done < size;) {
      const ssize_t n = write(out, piece.data(), std::min(kMiB, size - done));
      if (n <= 0) abort();
      done += static_cast<size_t>(n);
    }
    close(out);
    fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  }
  ~TestFile() {
    close(fd);
    unlink(path_.c_str());
  }
  TestFile(const TestFile&) = delete;
  TestFile& operator=(const TestFile&) = delete;
  int fd;

 private:
  std::string path_;
};

// A file of 64 MiB with a tracked descriptor, all of it in the cache.
struct Cached {
  TestFile file{64 * kMiB};
  OpenStream stream{};
  engine::Adopted adopted{};
  std::vector<char> buffer = std::vector<char>(kMiB);

  Cached() {
    start_engine();
    preload::fd_opened(file.fd, O_RDONLY);
    adopted = engine::adopt(file.fd, stream);
    for (int pass = 0; pass < 2; ++pass) {
      for (size_t at = 0; at < 64 * kMiB; at += kMiB) pread_at(kMiB, at);
    }
  }
  ~Cached() { preload::fd_closing(file.fd); }
  long pread_at(size_t size, size_t at) {
    const size_t plain =
        preload::hit_at(file.fd, buffer.data(), size, static_cast<off_t>(at));
    if (plain != 0) return static_cast<long>(plain);
    iovec storage;
    return serve::read_at(file.fd,
                          serve::one_buffer(buffer.data(), size, storage),
                          static_cast<off_t>(at));
  }
};

Cached* cached() {
  static std::optional<Cached> one;
  if (!one) one.emplace();
  return one->adopted.file != nullptr ? &*one : nullptr;
}

// Offsets that look random, at a few instructions.
class Offsets {
 public:
  Offsets(size_t size, size_t span) : size_(size), blocks_(span / size) {}
  size_t next() {
    x_ = x_ * 0x5851f42d4c957f2d + 1;
    return static_cast<size_t>((x_ >> 33) * blocks_ >> 31) * size_;
  }

 private:
  uint64_t x_ = 1;
  uint64_t size_, blocks_;
};

// size, span: through the descriptor table, as pread(2) goes.
void hit(benchmark::State& state) {
  Cached* c = cached();
  if (c == nullptr) return state.SkipWithError("files cannot be cached here");
  const size_t size = static_cast<size_t>(state.range(0));
  Offsets offsets(size, static_cast<size_t>(state.range(1)));
  for (auto _ : state) {
    if (c->pread_at(size, offsets.next()) != static_cast<long>(size)) {
      return state.SkipWithError("no hit");
    }
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(hit)->ArgsProduct({{1, 512, 4096, 65536}, {kMiB, 64 * kMiB}});

// The same below preload/: the engine alone.
void engine_hit(benchmark::State& state) {
  Cached* c = cached();
  if (c == nullptr) return state.SkipWithError("files cannot be cached here");
  const size_t size = static_cast<size_t>(state.range(0));
  Offsets offsets(size, kMiB);
  const iovec iov{c->buffer.data(), size};
  for (auto _ : state) {
    epoch::Section section(*epoch::self());
    const auto result =
        cache::read_hit(*c->adopted.file, c->stream, &iov, 1, offsets.next());
    if (!result.complete) return state.SkipWithError("no hit");
  }
}
BENCHMARK(engine_hit)->Arg(1)->Arg(4096);

void copy(benchmark::State& state) {
  const size_t size = static_cast<size_t>(state.range(0));
  std::vector<char> from(kMiB, 'x'), to(kMiB);
  Offsets offsets(size, kMiB);
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        racache_copy(to.data(), from.data() + offsets.next(), size));
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(copy)->RangeMultiplier(4)->Range(16, 65536);

void lookup(benchmark::State& state) {
  const unsigned order = static_cast<unsigned>(state.range(0));
  constexpr uint64_t kPages = 1 << 18;  // 1 GiB
  Metadata metadata;
  FileIndex index;
  if (!metadata.init(64 * kMiB) || !index.init(kPages, metadata)) {
    return state.SkipWithError("no memory");
  }
  for (uint64_t page = 0; page < kPages; page += 1u << order) {
    if (index.insert(page, order, static_cast<FolioId>(page + 1)) !=
        FileIndex::Insert::kOk) {
      return state.SkipWithError("not inserted");
    }
  }
  Offsets pages(1, kPages);
  for (auto _ : state) benchmark::DoNotOptimize(index.lookup(pages.next()));
  index.destroy();
  metadata.destroy();
}
BENCHMARK(lookup)->Arg(0)->Arg(5)->Arg(9);

void epoch_section(benchmark::State& state) {
  start_engine();
  for (auto _ : state) {
    epoch::Section section(*epoch::self());
    benchmark::ClobberMemory();
  }
}
BENCHMARK(epoch_section);

// Has read before it was asked: what remains of a fill is our own work.
unsigned submit_done(Backend&, ReadOp* const* ops, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    ops[i]->done(*ops[i], static_cast<long>(ops[i]->bytes));
  }
  return count;
}

// size: a miss in a file that is not in the cache, and its completion.
void fill(benchmark::State& state) {
  Cached* c = cached();
  if (c == nullptr) return state.SkipWithError("files cannot be cached here");
  const size_t size = static_cast<size_t>(state.range(0));
  File& file = *c->adopted.file;
  Backend ready = *file.engine->backend;
  Backend* before = file.engine->backend;
  ready.submit = submit_done;
  file.engine->backend = &ready;
  cache::advise(file, c->stream, POSIX_FADV_RANDOM);
  file.check_page_cache.store(false);
  size_t at = 64 * kMiB;
  for (auto _ : state) {
    if (at == 64 * kMiB) {
      state.PauseTiming();
      cache::dontneed(file, 0, 0);
      at = 0;
      state.ResumeTiming();
    }
    iovec iov{c->buffer.data(), size};
    const auto result = cache::read(file, c->stream, &iov, 1, at, -1);
    if (!result.complete) return state.SkipWithError("not filled");
    at += size;
  }
  file.engine->backend = before;
  cache::dontneed(file, 0, 0);
  cache::advise(file, c->stream, POSIX_FADV_NORMAL);
}
BENCHMARK(fill)->Arg(4096)->Arg(65536)->Arg(kMiB);

void adoption(benchmark::State& state) {
  start_engine();
  std::vector<std::unique_ptr<TestFile>> files;
  for (int64_t i = 0; i < state.max_iterations; ++i) {
    files.push_back(std::make_unique<TestFile>(64 << 10));
  }
  std::vector<engine::Adopted> adopted;
  auto file = files.begin();
  OpenStream stream{};
  for (auto _ : state) {
    adopted.push_back(engine::adopt((*file++)->fd, stream));
  }
  for (const engine::Adopted& a : adopted) {
    if (a.file == nullptr) state.SkipWithError("files cannot be cached here");
    if (a.file != nullptr) engine::release(*a.file, a.generation);
  }
}
BENCHMARK(adoption)->Iterations(200)->Unit(benchmark::kMicrosecond);

// What a call on a descriptor that is not cached costs more.
void pass_through(benchmark::State& state) {
  static_cast<void>(cached());  // there is a table
  int ends[2];
  if (pipe(ends) != 0) abort();
  for (auto _ : state) benchmark::DoNotOptimize(preload::may_serve(ends[0]));
  close(ends[0]);
  close(ends[1]);
}
BENCHMARK(pass_through);

}  // namespace

BENCHMARK_MAIN();
