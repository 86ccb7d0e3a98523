// SPDX-License-Identifier: MIT
#include "core/engine.h"

#include <sys/resource.h>
#include <cerrno>
#include <new>

#include "core/backend_threads.h"
#include "core/backend_uring.h"
#include "core/copy.h"
#include "core/eligible.h"
#include "core/log.h"
#include "core/mapping.h"

namespace racache::engine {
namespace {

// Wiped in a forked child, however it was made: no engine, no counts, and a
// start lock that nobody holds.
struct Root {
  std::atomic<Engine*> engine;
  std::atomic<bool> refused;  // could not start; not tried again
  std::atomic<bool> written;  // statistics
  Lock start;
  std::atomic<uint32_t> kernel_files[static_cast<size_t>(Reason::kCount)];
};

constinit std::atomic<Root*> g_root{nullptr};
constinit Config g_config;

Root* root() { return g_root.load(std::memory_order_acquire); }

// A process that bounds its address space, or its data, has other plans for
// it: we take an eighth at most.
uint64_t within_limit(int resource, uint64_t bytes) {
  rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  sys::invoke(SYS_prlimit64, 0, resource, 0L, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) return bytes;
  return limit.rlim_cur / 8 < bytes ? limit.rlim_cur / 8 : bytes;
}

// Less and less, where the address space cannot be had.
bool make_arena(Engine& engine) {
  constexpr uint64_t kLeast = 8 << 20;
  uint64_t bytes = within_limit(RLIMIT_AS, engine.config.size_bytes);
  bytes = within_limit(RLIMIT_DATA, bytes);
  if (bytes < kLeast) return false;
  for (;; bytes /= 2) {
    if (engine.arena.init(bytes, engine.config.huge_pages)) return true;
    if (bytes / 2 < kLeast) return false;
  }
}

const char* refusal_text(int error) {
  switch (error) {
    case EPERM:
      return "io_uring: EPERM (seccomp?)";
    case ENOSYS:
      return "io_uring: ENOSYS";
    case EACCES:
      return "io_uring: EACCES";
    case ENOMEM:
      return "io_uring: ENOMEM (RLIMIT_MEMLOCK?)";
    case EMFILE:
      return "io_uring: EMFILE";
    default:
      return "io_uring: refused";
  }
}

void say_why(Engine& engine, const char* why) {
  Text text(engine.io_why, sizeof engine.io_why);
  text << why;
}

void name_fallback(const Engine& engine) {
  if (engine.io_why[0] == 0) return;  // threads are what was asked for
  TextBuffer<120> text;
  text << static_cast<const char*>(engine.io_why) << "; threads read instead";
  log::line(LogLevel::kInfo, text);
}

// A ring takes one of the program's numbers; where they are few, it may need
// the last of them itself.
bool few_descriptors() {
  constexpr uint64_t kFew = 256;
  rlimit limit{};
  sys::invoke(SYS_prlimit64, 0, RLIMIT_NOFILE, 0L, &limit);
  return limit.rlim_cur < kFew;
}

// The ladder: io_uring, threads, nothing.
bool make_backend(Engine& engine) {
  const IoMode mode = engine.config.io;
  if (mode == IoMode::kAuto && few_descriptors()) {
    say_why(engine, "io_uring: RLIMIT_NOFILE is small");
  } else if (mode == IoMode::kAuto || mode == IoMode::kUring) {
    UringOptions options;
    options.poll_us = engine.config.poll_us;
    Expected<Backend*> ring = make_uring(options);
    if (ring) {
      engine.backend = *ring;
      return true;
    }
    say_why(engine, refusal_text(static_cast<int>(ring.error())));
    if (mode == IoMode::kUring) return false;
  }
  Expected<Backend*> threads = make_threads({});
  if (!threads) return false;
  engine.backend = *threads;
  engine.with_threads = true;
  name_fallback(engine);
  return true;
}

bool make_parts(Engine& engine) {
  if (!epoch::init() || epoch::self() == nullptr) return false;
  choose_copy();
  if (!make_arena(engine)) return false;
  const uint64_t limit = engine.arena.limit();
  EvictionPolicy& policy = engine.evictor.policy();
  if (!policy.init(engine.config.evict, engine.arena)) return false;
  const uint64_t taken =
      (limit >> kPageShift) * sizeof(Folio) + policy.metadata_bytes();
  if (!engine.metadata.init(Metadata::budget(limit, taken))) return false;
  const uint64_t ops = limit >> 20;
  if (!engine.ops.init(ops < 32 ? 32 : ops > 512 ? 512 : ops)) return false;
  engine.files = static_cast<File*>(
      mapping::reserve(sizeof(File) * kMaxFiles, MADV_DONTFORK));
  return engine.files != nullptr && make_backend(engine);
}

void populate(Engine& engine) {
  if (!engine.config.populate) return;
  while (engine.arena.prepare_block()) {
  }
}

// What a start that failed has reserved is the program's to use.
Engine* unmake(Engine& engine) {
  if (engine.backend != nullptr) engine.backend->destroy(*engine.backend);
  engine.ops.destroy();
  engine.metadata.destroy();
  engine.evictor.policy().destroy();
  engine.arena.destroy();
  if (engine.files != nullptr) {
    mapping::release(engine.files, sizeof(File) * kMaxFiles);
  }
  mapping::release(&engine, sizeof(Engine));
  return nullptr;
}

Engine* create() {
  Engine* engine =
      static_cast<Engine*>(mapping::reserve(sizeof(Engine), MADV_DONTFORK));
  if (engine == nullptr) return nullptr;
  new (engine) Engine();
  engine->config = g_config;
  resolve_size(engine->config);
  engine->pid = sys::getpid();
  engine->generation = epoch::process_number();
  engine->start_ns = sys::monotonic_ns();
  if (!make_parts(*engine)) return unmake(*engine);
  engine->live.prepare(engine->config);
  engine->background.prepare(*engine);
  if (engine->service.start(*engine) != 0) return unmake(*engine);
  populate(*engine);
  return engine;
}

void refuse(Root& r, const char* why) {
  r.refused.store(true, std::memory_order_release);
  TextBuffer<200> text;
  text << "the engine could not start (" << why
       << "); every file is the kernel's";
  log::line(LogLevel::kWarn, text);
}

// The first adoption of the process starts it; the others wait.
Engine* get_or_start(Root& r) {
  Engine* engine = r.engine.load(std::memory_order_acquire);
  if (engine != nullptr || r.refused.load(std::memory_order_acquire)) {
    return engine;
  }
  LockGuard guard(r.start);
  engine = r.engine.load(std::memory_order_acquire);
  if (engine != nullptr || r.refused.load()) return engine;
  engine = create();
  if (engine == nullptr) {
    refuse(r, "memory, threads or io_uring refused");
  } else {
    r.engine.store(engine, std::memory_order_release);
  }
  return engine;
}

bool passing(Reason reason) {
  return reason == Reason::kWriter || reason == Reason::kBudget ||
         reason == Reason::kBroken || reason == Reason::kChanged ||
         reason == Reason::kUnwatched;
}

// By the program's thread that wanted the file; the first of its reason is
// named. A process that cached nothing writes no statistics: this is where it
// says why.
RACACHE_COLD void refuse(Reason reason) {
  const bool first = refusals(reason) == 0;
  count_refusal(reason);
  if (!first) return;
  TextBuffer<120> text;
  text << "a file is left to the kernel: " << reason_text(reason);
  log::line(LogLevel::kInfo, text);
}

Adopted refused(Reason reason) {
  refuse(reason);
  return {nullptr, 0, reason, passing(reason)};
}

void set_stream(OpenStream& stream, const File& file) {
  LockGuard guard(stream.lock);
  stream.stream.ra_pages = file.ra_pages;
}

}  // namespace

void configure(const Config& config) {
  vdso::init();
  g_config = config;
  void* page = mapping::reserve(sizeof(Root), MADV_WIPEONFORK);
  if (page != nullptr) {
    g_root.store(static_cast<Root*>(page), std::memory_order_release);
  }
}

const Config& config() { return g_config; }

Engine* current() {
  Root* r = root();
  return r != nullptr ? r->engine.load(std::memory_order_acquire) : nullptr;
}

uint32_t generation() {
  const Engine* engine = current();
  return engine != nullptr ? engine->generation : 0;
}

uint32_t process_number() { return epoch::process_number(); }

void count_refusal(Reason reason) {
  if (Root* r = root()) {
    r->kernel_files[static_cast<size_t>(reason)].fetch_add(
        1, std::memory_order_relaxed);
  }
}

uint32_t refusals(Reason reason) {
  Root* r = root();
  return r == nullptr ? 0
                      : r->kernel_files[static_cast<size_t>(reason)].load(
                            std::memory_order_relaxed);
}

Reason hopeless(int fd) {
  if (!g_config.enabled || g_config.io == IoMode::kOff) {
    return Reason::kNoEngine;
  }
  const Reason reason = eligible::glance(g_config, fd);
  if (reason != Reason::kNone) refuse(reason);
  return reason;
}

Adopted adopt(int fd, OpenStream& stream) {
  Root* r = root();
  if (r == nullptr || !g_config.enabled || g_config.io == IoMode::kOff) {
    return {nullptr, 0, Reason::kNoEngine, false};
  }
  SignalGuard signals;
  eligible::Candidate candidate;
  const Reason reason = eligible::judge(g_config, fd, &candidate);
  if (reason != Reason::kNone) return refused(reason);
  Engine* engine = get_or_start(*r);
  if (engine == nullptr) return refused(Reason::kNoEngine);
  AdoptRequest request{};
  request.tid = sys::gettid();
  request.fd = fd;
  request.device = candidate.device;
  request.inode = candidate.inode;
  request.trust = g_config.coherence == Coherence::kTrust && candidate.named;
  __builtin_memcpy(request.path, candidate.path, sizeof request.path);
  engine->service.adopt(request);
  if (request.file == nullptr) return refused(request.reason);
  set_stream(stream, *request.file);
  return {request.file, engine->generation, Reason::kNone, false};
}

void release(File& file, uint32_t file_generation) {
  Engine* engine = current();
  if (engine == nullptr || engine->generation != file_generation) return;
  if (file.references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    engine->service.released(file);
  }
}

void fail(Engine& engine, Reason reason) {
  if (engine.failed.exchange(true)) return;
  count_refusal(reason);
  const uint32_t used = engine.files_used.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < used; ++i) distrust(engine.files[i]);
  engine.service.give_up_all();
}

void distrust(File& file) {
  File::State expected = File::State::kLeased;
  if (file.state.compare_exchange_strong(expected, File::State::kBroken,
                                         std::memory_order_acq_rel)) {
    file.engine->service.released(file);  // it looks after broken ones too
  }
}

void start_helpers(Engine& engine) {
  engine.background.start();
  engine.live.start(engine);
}

void in_private_table(Engine& engine) {
  if (!engine.with_threads) return;
  threads_start_workers(*engine.backend);
}

int ring_fd() {
  Engine* engine = current();
  return engine != nullptr ? engine->backend->ring_fd(*engine->backend) : -1;
}

void move_ring_fd() {
  Engine* engine = current();
  if (engine == nullptr) return;
  SignalGuard signals;
  engine->service.wait_until_complete();
  if (!engine->backend->move_ring_fd(*engine->backend)) {
    fail(*engine, Reason::kRingLost);
  }
}

void write_statistics() {
  Root* r = root();
  Engine* engine = current();
  if (engine == nullptr || r->written.exchange(true)) return;
  SignalGuard signals;
  if (engine->config.live) engine->service.wait_until_complete();
  engine->live.remove();
  // 4 KiB of paths and more: too much for a small stack.
  Snapshot* snapshot =
      static_cast<Snapshot*>(mapping::reserve(sizeof(Snapshot), MADV_DONTFORK));
  if (snapshot == nullptr) return;
  // What was read ahead and never waited for has been read all the same.
  engine->backend->poll(*engine->backend);
  fill_snapshot(*engine, *snapshot);
  stats::write(*snapshot, engine->config);
  mapping::release(snapshot, sizeof(Snapshot));
}

Engine* detach() {
  Root* r = root();
  if (r == nullptr) return nullptr;
  r->refused.store(true, std::memory_order_release);
  LockGuard guard(r->start);  // one that is just starting is waited for
  return r->engine.exchange(nullptr, std::memory_order_acq_rel);
}

}  // namespace racache::engine
