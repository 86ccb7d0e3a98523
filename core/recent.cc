// SPDX-License-Identifier: MIT
#include "core/recent.h"

#include "core/file.h"
#include "core/prev_pos.h"

namespace racache {
namespace recent {
namespace {

// Whoever takes the pointer away tells the file; the owner then finds null and
// begins at 0. Only an owner just turning elsewhere may tell it once more.
void take_from(ThreadSlot& slot, void* wanted) {
  Recent& theirs = slot.recent;
  File* file = theirs.file.load(kRelaxed);
  if (file == nullptr || (wanted != nullptr && file != wanted)) return;
  const uint64_t hits = theirs.file_hits;
  if (theirs.file.compare_exchange_strong(file, nullptr, kRelaxed)) {
    file->hits.fetch_add(hits, kRelaxed);
  }
}

}  // namespace

void turn_to(Recent& mine, File& file) {
  File* before = mine.file.load(kRelaxed);
  const uint64_t hits = mine.file_hits;
  mine.file_hits = 0;
  mine.file.store(&file, kRelaxed);
  if (before != nullptr) before->hits.fetch_add(hits, kRelaxed);
}

void settle(File* file) { epoch::for_each(take_from, file); }

}  // namespace recent

namespace prev_pos {

void note_elsewhere(ThreadSlot& slot, OpenStream& stream, uint64_t end) {
  if (stream.reader.load(kRelaxed) == nullptr) {
    stream.reader.store(&slot, kRelaxed);
    return set(stream, end);
  }
  slot.recent.stream = &stream;
  slot.recent.position = end;
}

// What was noted while the stream has had no reader is of an earlier life.
void take_over(ThreadSlot& slot, OpenStream& stream) {
  const ThreadSlot* before = stream.reader.load(kRelaxed);
  if (before == &slot) return;
  if (slot.recent.stream == &stream) {
    if (before != nullptr) set(stream, slot.recent.position);
    slot.recent.stream = nullptr;
  }
  stream.reader.store(&slot, kRelaxed);
}

}  // namespace prev_pos
}  // namespace racache
