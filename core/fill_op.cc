// SPDX-License-Identifier: MIT
#include "core/fill_op.h"

#include <cerrno>

#include "core/engine.h"
#include "core/mapping.h"

namespace racache {

Expected<void> OpPool::init(uint32_t count) {
  ops_ = static_cast<FillOp*>(
      mapping::reserve(sizeof(FillOp) * count, MADV_DONTFORK));
  if (ops_ == nullptr) return tl::unexpected(Errno{ENOMEM});
  count_ = count;
  return {};
}

void OpPool::destroy() {
  if (ops_ != nullptr) mapping::release(ops_, sizeof(FillOp) * count_);
  ops_ = free_ = nullptr;
  count_ = touched_ = 0;
}

FillOp* OpPool::get() {
  if (fault::point()) return nullptr;
  LockGuard guard(lock_);
  FillOp* op = free_;
  if (op != nullptr) {
    free_ = op->next;
  } else if (touched_ < count_) {
    op = &ops_[touched_++];
  } else {
    return nullptr;
  }
  busy_.fetch_add(1, std::memory_order_relaxed);
  op->next = nullptr;
  return op;
}

void OpPool::put(FillOp* op) {
  LockGuard guard(lock_);
  op->next = free_;
  free_ = op;
  busy_.fetch_sub(1, std::memory_order_release);
}

namespace {

// Takes a failed folio out of the index and wakes those who wait for it: they
// ask the kernel. `leak`: the device may still write into the memory.
void fail_folio(File& file, FolioId id, bool leak) {
  Folio& folio = file.engine->arena.folio(id);
  const unsigned order =
      Folio::order_of(folio.word.load(std::memory_order_relaxed));
  {
    LockGuard guard(file.lock);
    file.index.erase(folio.index, order);
  }
  if (folio.end_fill(false)) sys::futex_wake(&folio.word, sys::kWakeAll);
  if (!leak) file.engine->evictor.retire(*file.engine, id);
}

// What comes from the kernel's page cache does not count as read ahead.
void finish_folio(Engine& engine, FolioId id, bool buffered) {
  Folio& folio = engine.arena.folio(id);
  if (buffered) {
    folio.word.fetch_and(~Folio::kReadahead, std::memory_order_relaxed);
  }
  if (folio.end_fill(true)) sys::futex_wake(&folio.word, sys::kWakeAll);
}

void count_device(const FillOp& op, uint64_t bytes) {
  op.file->device_bytes.fetch_add(op.buffered ? 0 : bytes,
                                  std::memory_order_relaxed);
  Counters* c = epoch::counters();
  if (c == nullptr) return;
  if (op.buffered) {
    c->from_page_cache_bytes += bytes;
  } else {
    ++c->device_requests;
    c->device_bytes += bytes;
  }
}

// The folios of an op are found through the index: none of them can leave it
// while it is filling.
void complete(FillOp& op, long result) {
  File& file = *op.file;
  Engine& engine = *file.engine;
  const uint64_t expected = fill_op::expected_bytes(op);
  const uint64_t got = result > 0 ? static_cast<uint64_t>(result) : 0;
  count_device(op, got < expected ? got : expected);
  if (result == -EINVAL) {  // no direct I/O after all
    engine::count_refusal(Reason::kNoDirect);
    engine::distrust(file);
  }
  const uint64_t good = got >= expected ? op.read.bytes : got;
  for (uint64_t done = 0; done < op.read.bytes;) {
    const FolioId id = file.index.lookup(op.first + (done >> kPageShift));
    done += engine.arena.folio(id).pages() << kPageShift;
    if (done <= good) {
      finish_folio(engine, id, op.buffered);
    } else {
      fail_folio(file, id, result == -EOWNERDEAD);
    }
  }
}

}  // namespace

namespace fill_op {

// Bytes that a read of this op must bring: up to the file's end.
uint64_t expected_bytes(const FillOp& op) {
  const uint64_t left = op.file->size - op.read.offset;
  return left < op.read.bytes ? left : op.read.bytes;
}

void on_done(ReadOp& read, long result) {
  FillOp& op = *static_cast<FillOp*>(read.user);
  File& file = *op.file;
  Engine& engine = *file.engine;
  complete(op, result);
  engine.ops.put(&op);
  file.in_flight.fetch_sub(1, std::memory_order_release);
  if (result == -EOWNERDEAD || result == -ECANCELED) {
    engine::fail(engine, Reason::kRingLost);
  }
}

void refuse(FillOp& op) {
  File& file = *op.file;
  complete(op, -EAGAIN);
  file.engine->ops.put(&op);
  file.in_flight.fetch_sub(1, std::memory_order_release);
}

}  // namespace fill_op
}  // namespace racache
