// SPDX-License-Identifier: MIT
#include "core/fill.h"

#include "core/engine.h"
#include "core/fill_batch.h"

namespace racache {

namespace {

using readahead::Layout;
using readahead::Plan;

File& as_file(const void* file) {
  return *const_cast<File*>(static_cast<const File*>(file));
}

const readahead::View kIndexView = {
    nullptr,
    [](const void* f, PageIndex page) {
      return as_file(f).index.lookup(page) != kNoFolio;
    },
    [](const void* f, PageIndex from, uint64_t scan) {
      return as_file(f).index.next_hole(from, scan);
    },
    [](const void* f, PageIndex from, uint64_t scan) {
      return as_file(f).index.previous_hole(from, scan);
    },
    [](const void* f, PageIndex from, PageIndex limit) {
      return as_file(f).index.next_present(from, limit);
    }};

readahead::View view_of(File& file) {
  readahead::View view = kIndexView;
  view.file = &file;
  return view;
}

readahead::Limits limits_of(const File& file) {
  const Config& config = file.engine->config;
  readahead::Limits limits;
  limits.file_pages = file.pages;
  limits.io_pages = file.io_pages;
  limits.max_order = config.max_order;
  limits.large_forced = config.large_forced;
  limits.half_window = config.half_window;
  return limits;
}

void count_plan(const Plan& plan) {
  Counters* c = epoch::counters();
  if (c == nullptr) return;
  using readahead::Kind;
  switch (plan.kind) {
    case Kind::kInit:
    case Kind::kContext:
      ++c->sync_windows;
      break;
    case Kind::kAsync:
    case Kind::kForeign:
      ++c->async_windows;
      break;
    case Kind::kForced:
      ++c->forced;
      break;
    case Kind::kStandalone:
      ++c->standalone;
      break;
    case Kind::kNone:
      break;
  }
  if (plan.trim_avoided) ++c->trims_avoided;
}

// Room for what a plan is likely to want, made before any lock is taken. `run`
// pages of it are likely to be wanted in one piece.
void make_room(File& file, uint64_t request, uint64_t run) {
  Engine& engine = *file.engine;
  engine.background.nudge();
  uint64_t window =
      file.ra_pages > file.io_pages ? file.ra_pages : file.io_pages;
  if (window < request) window = request;
  if (window > file.pages) window = file.pages;
  const uint64_t most = engine.arena.limit() >> (kPageShift + 2);
  const uint64_t want = window < most ? window : most;
  if (engine.arena.free_pages() < want) engine.evictor.reclaim(engine, want);
  // Room in crumbs would be filled with crumbs.
  const unsigned order = floor_log2(run < want ? run | 1 : want | 1);
  const unsigned largest = engine.config.max_order;
  engine.evictor.make_run(engine, order < largest ? order : largest);
}

// One decision after another, under the locks of stream and file; the device
// reads they lead to are submitted together, after the locks.
class Planner {
 public:
  Planner(File& f, OpenStream& s)
      : file(f), stream(s), view(view_of(f)), limits(limits_of(f)) {}

  bool carry_out(const Plan& plan) {
    if (plan.kind == readahead::Kind::kNone) return false;
    count_plan(plan);
    Layout layout(stream.stream, limits, view, plan);
    fill_batch::insert_all(file, layout, batch);
    batch.open = nullptr;
    return true;
  }

  File& file;
  OpenStream& stream;
  const readahead::View view;
  const readahead::Limits limits;
  Batch batch;
};

template <class Decide>
void run_plan(File& file, OpenStream& stream, uint64_t request, uint64_t run,
              int fd, const Decide& decide) {
  make_room(file, request, run);
  Planner planner(file, stream);
  planner.batch.once = stream.stream.noreuse;
  {
    LockGuard stream_guard(stream.lock);
    LockGuard file_guard(file.lock);
    if (!file.readable()) return;
    decide(planner);
  }
  fill_batch::submit(*file.engine, planner.batch, fd);
}

// What a pipeline may hold: a small part of the memory, for streams are many.
uint64_t pipeline_pages(const Engine& engine) {
  constexpr unsigned kShare = 6;  // 1/64
  if (engine.ops.busy() > engine.ops.count() / 2) return 0;
  return engine.arena.limit() >> (kPageShift + kShare);
}

// What is left of a large read says how large the windows may be that the read
// itself will meet. Windows in flight beyond it are for its successors: they
// grow on, instead of shrinking or becoming odd with the read's end.
uint64_t pipelined_request(const readahead::Stream& s, uint64_t request) {
  const uint64_t grown = 2 * uint64_t{s.size};
  return request > s.ra_pages && request < grown ? grown : request;
}

// The window after the stream's last, as if that one's mark had been met.
Plan plan_further(Planner& p, uint64_t request) {
  const readahead::Stream& s = p.stream.stream;
  const PageIndex mark = s.start + s.size - s.async_size;
  if (s.start + s.size >= p.file.pages) return Plan{};
  // Made room for was one window; a further one may wait for the next mark.
  if (p.file.engine->arena.free_pages() < s.size) return Plan{};
  const FolioId id = p.file.index.lookup(mark);
  if (id == kNoFolio) return Plan{};
  const Folio& folio = p.file.engine->arena.folio(id);
  const unsigned order =
      Folio::order_of(folio.word.load(std::memory_order_relaxed));
  return readahead::on_mark(p.stream.stream, p.limits, p.view, folio.index,
                            order, pipelined_request(s, request));
}

void fill_pipeline(Planner& p, PageIndex mark, uint64_t request) {
  Engine& engine = *p.file.engine;
  const uint64_t most = pipeline_pages(engine);
  while (p.stream.pipeline.wants_more(p.stream.stream, mark,
                                      engine.config.depth, most)) {
    if (!p.carry_out(plan_further(p, request))) return;
  }
}

void meet(Planner& p, PageIndex first, unsigned order, uint64_t request) {
  Pipeline& pipeline = p.stream.pipeline;
  readahead::Stream& s = p.stream.stream;
  const bool pipelined = p.file.engine->config.depth != 1;
  if (!pipelined || !pipeline.earlier_mark(s, first)) {
    const Plan plan =
        readahead::on_mark(s, p.limits, p.view, first, order,
                           pipelined ? pipelined_request(s, request) : request);
    if (!p.carry_out(plan)) return;
    if (plan.kind == readahead::Kind::kForeign) return pipeline.join(s.start);
  }
  fill_pipeline(p, first, request);
}

// A program that said FADV_RANDOM and then streams in small steps (a database
// compacting the table that it looks up keys in) would wait for the device at
// each step. After enough small misses in order it is treated as the stream
// that it is, until the first miss elsewhere. Beyond the kernel's policy, and
// only for reads too small to be large requests of their own.
bool streams_after_all(OpenStream& stream, PageIndex page, uint64_t request) {
  constexpr uint32_t kEnough = 8;
  constexpr uint64_t kSmall = 16;  // pages
  const int64_t prev =
      __atomic_load_n(&stream.stream.prev_pos, __ATOMIC_RELAXED);
  const uint64_t previous = static_cast<uint64_t>(prev) >> kPageShift;
  if (request > kSmall || page - previous > 1) {
    stream.in_order = 0;
    return false;
  }
  return ++stream.in_order > kEnough;
}

// Under the stream's lock.
Plan decide_miss(OpenStream& stream, const readahead::Limits& limits,
                 const readahead::View& view, PageIndex page,
                 uint64_t request) {
  readahead::Stream& s = stream.stream;
  // Someone else may have been faster: that is a hit in flight.
  if (view.present(view.file, page)) return Plan{};
  if (!s.random || !streams_after_all(stream, page, request)) {
    return readahead::on_miss(s, limits, view, page, request);
  }
  s.random = false;
  const Plan plan = readahead::on_miss(s, limits, view, page, request);
  s.random = true;
  return plan;
}

}  // namespace

namespace fill {

void on_miss(File& file, OpenStream& stream, PageIndex page, uint64_t request,
             int fd) {
  run_plan(file, stream, request, request, fd, [&](Planner& p) {
    p.batch.awaited = true;
    const PageIndex end = stream.stream.start + stream.stream.size;
    const Plan plan = decide_miss(stream, p.limits, p.view, page, request);
    if (plan.ordered) stream.pipeline.begin(end, plan.start);
    p.carry_out(plan);
  });
}

void on_mark(File& file, OpenStream& stream, PageIndex first, unsigned order,
             uint64_t request, int fd) {
  if (Counters* c = epoch::counters(); c != nullptr) ++c->marks_hit;
  run_plan(file, stream, request, file.ra_pages, fd,
           [&](Planner& p) { meet(p, first, order, request); });
}

PageIndex force(File& file, PageIndex page, PageIndex end, int fd) {
  // In pieces of one 2 MiB block, aligned after the first, so that what one
  // piece needs is known and a full pool stops between pieces.
  OpenStream none{};
  if (end > file.pages) end = file.pages;
  while (page < end) {
    if (file.engine->ops.busy() + 8 > file.engine->ops.count()) break;
    const PageIndex stop = round_down(page, kBlockPages) + kBlockPages;
    const uint64_t pages = (stop < end ? stop : end) - page;
    make_room(file, pages, pages);
    if (file.engine->arena.free_pages() < pages) break;
    run_plan(file, none, pages, pages, fd, [&](Planner& p) {
      p.carry_out(
          readahead::on_force(none.stream, p.limits, page, pages, false));
    });
    page += pages;
  }
  return page;
}

}  // namespace fill
}  // namespace racache
