// SPDX-License-Identifier: MIT
#include "core/fill_batch.h"

#include "core/engine.h"
#include "core/lease.h"

namespace racache {
namespace {

using readahead::Layout;
using readahead::Step;

constexpr unsigned kAtOnce = 16;  // reads that are submitted together

// An op may grow up to what the device takes in one request, but always takes
// one whole folio.
bool fits(const FillOp& op, const File& file, uint64_t pages) {
  if (op.read.iov_count == kMaxIov) return false;
  const uint64_t limit = file.io_pages < 16 ? 16 : file.io_pages;
  return op.pages + pages <= limit;
}

FillOp* begin_op(File& file, Batch& batch) {
  FillOp* op = file.engine->ops.get();
  if (op == nullptr) return nullptr;
  op->file = &file;
  op->first = 0;
  op->pages = 0;
  op->buffered = false;
  op->read = {};
  op->read.iov = op->iov;
  op->read.done = fill_op::on_done;
  op->read.user = op;
  (batch.last == nullptr ? batch.first : batch.last->next) = op;
  batch.last = batch.open = op;
  return op;
}

void append(FillOp& op, Engine& engine, FolioId id, const Step& step) {
  const size_t bytes = kPageSize << step.order;
  std::byte* memory = engine.arena.memory(id);
  if (op.read.iov_count == 0) {
    op.first = static_cast<uint32_t>(step.index);
    op.read.offset = step.index << kPageShift;
  }
  iovec& last = op.iov[op.read.iov_count == 0 ? 0 : op.read.iov_count - 1];
  if (op.read.iov_count != 0 &&
      static_cast<std::byte*>(last.iov_base) + last.iov_len == memory) {
    last.iov_len += bytes;  // neighbours in the arena, too
  } else {
    op.iov[op.read.iov_count++] = {memory, bytes};
  }
  op.read.bytes += bytes;
  op.pages += 1u << step.order;
}

enum class Inserted : uint8_t { kYes, kCollision, kNoMemory };

Inserted insert_folio(File& file, const Step& step, Batch& batch) {
  Engine& engine = *file.engine;
  const uint64_t pages = uint64_t{1} << step.order;
  if (batch.open != nullptr && !fits(*batch.open, file, pages)) {
    batch.open = nullptr;
  }
  const FolioId id = engine.arena.allocate(step.order);
  if (id == kNoFolio) return Inserted::kNoMemory;
  FillOp* op = batch.open;
  if (op == nullptr) op = begin_op(file, batch);
  if (op == nullptr) {
    engine.arena.release(id, step.order);
    return Inserted::kNoMemory;
  }
  EvictionPolicy& policy = engine.evictor.policy();
  engine.arena.folio(id).begin_fill(
      file.number, step.index, step.order, step.mark,
      policy.traits(identity_of(file), step.index, step.order, batch.once));
  const FileIndex::Insert result =
      file.index.insert(step.index, step.order, id);
  if (result == FileIndex::Insert::kOk) {
    append(*op, engine, id, step);
    policy.admitted(id);
    return Inserted::kYes;
  }
  Folio& folio = engine.arena.folio(id);
  if (folio.abandon_fill()) sys::futex_wake(&folio.word, sys::kWakeAll);
  engine.arena.release(id, step.order);
  return result == FileIndex::Insert::kExists ? Inserted::kCollision
                                              : Inserted::kNoMemory;
}

// Whatever was in the way, the next try at this place is a smaller folio; of
// one page there is none smaller.
void count_fallback(const Step& step) {
  Counters* c = epoch::counters();
  if (c != nullptr && step.order != 0) ++c->order_fallbacks;
}

// If the kernel's page cache holds all of an op, it is read from there: fresh
// and warm files must not be read from the device again.
void choose_source(FillOp& op, int fd) {
  File& file = *op.file;
  op.read.slot = static_cast<uint32_t>(file.direct_slot);
  if (!file.check_page_cache.load(std::memory_order_relaxed)) return;
  if (file.buffered_slot < 0 || fd < 0) return;
  const uint64_t expected = fill_op::expected_bytes(op);
  if (!lease::all_cached(fd, op.read.offset, expected)) return;
  op.buffered = true;
  op.read.slot = static_cast<uint32_t>(file.buffered_slot);
}

bool relays() {
  const ThreadSlot* slot = epoch::self();
  return slot != nullptr && slot->relays;
}

void submit_some(Engine& engine, ReadOp* const* reads, unsigned count) {
  const unsigned taken = engine.backend->submit(*engine.backend, reads, count);
  for (unsigned i = taken; i < count; ++i) {
    fill_op::refuse(*static_cast<FillOp*>(reads[i]->user));
  }
}

}  // namespace

namespace fill_batch {

void insert_all(File& file, Layout& layout, Batch& batch) {
  Counters* c = epoch::counters();
  for (;;) {
    const Step step = layout.next();
    if (step.action == Step::kDone) return;
    if (step.action == Step::kSubmit) {
      batch.open = nullptr;
      continue;
    }
    switch (insert_folio(file, step, batch)) {
      case Inserted::kYes:
        layout.inserted();
        if (c != nullptr) ++c->inserted_by_order[step.order];
        break;
      case Inserted::kCollision:
        layout.failed(readahead::Failure::kCollision);
        count_fallback(step);
        break;
      case Inserted::kNoMemory:
        layout.failed(readahead::Failure::kNoMemory);
        count_fallback(step);
        break;
    }
  }
}

// `taken` ops run their done() at any moment: nothing of them may be touched
// after submit, hence `next` is read first.
void submit(Engine& engine, Batch& batch, int fd) {
  const bool relayed = !batch.awaited && relays();
  ReadOp* reads[kAtOnce];
  unsigned count = 0;
  for (FillOp* op = batch.first; op != nullptr;) {
    FillOp* next = op->next;
    if (op->read.iov_count == 0) {  // its only folio met a collision
      engine.ops.put(op);
    } else {
      op->file->in_flight.fetch_add(1, std::memory_order_acquire);
      choose_source(*op, fd);
      reads[count++] = &op->read;
    }
    if (count == kAtOnce || (next == nullptr && count != 0)) {
      if (!relayed || !engine.background.relay(reads, count)) {
        submit_some(engine, reads, count);
      }
      count = 0;
    }
    op = next;
  }
}

void submit_relayed(Engine& engine) {
  ReadOp* reads[kAtOnce];
  while (const unsigned count = engine.relay.take(reads, kAtOnce)) {
    submit_some(engine, reads, count);
  }
}

}  // namespace fill_batch
}  // namespace racache
