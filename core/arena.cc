// SPDX-License-Identifier: MIT
// The buddy allocator. A block starts as one free folio of order 9; allocation
// splits, release merges with the buddy (the frame number with bit `order`
// flipped) while that is free and of the same order.
//
// When a folio of order k is released, its buddy's first frame is the head of
// something of order <= k: a larger one would contain both. So is_free() never
// looks at the leftover word of a frame inside a folio.
#include "core/arena.h"

#include <cerrno>

#include "core/huge_pages.h"
#include "core/mapping.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace racache {
namespace {

// Folio ids stay below 2^31: the index uses the top bit.
constexpr uint64_t kMaxBlocks = (uint64_t{1} << (31 - kMaxOrder)) - 1;

// Only the lock's holder writes, so a load and a store make an addition.
template <class T>
void add(std::atomic<T>& to, uint64_t amount) {
  to.store(static_cast<T>(to.load(kRelaxed) + amount), kRelaxed);
}

// A mapping of `bytes` that begins on a block boundary.
std::byte* reserve_aligned(size_t bytes) {
  void* whole = mapping::reserve(bytes + kBlockSize, MADV_DONTFORK);
  if (whole == nullptr) return nullptr;
  std::byte* raw = static_cast<std::byte*>(whole);
  const uint64_t at = reinterpret_cast<uint64_t>(raw);
  const size_t head = round_up(at, kBlockSize) - at;
  if (head != 0) mapping::release(raw, head);
  if (head != kBlockSize) {
    mapping::release(raw + head + bytes, kBlockSize - head);
  }
  return raw + head;
}

// Stores, for kernels before 5.14. The block must be no one's.
void touch_pages(std::byte* block) {
  for (size_t at = 0; at < kBlockSize; at += kPageSize) {
    *static_cast<volatile std::byte*>(block + at) = std::byte{0};
  }
}

bool populate(std::byte* block) {
  const long ret =
      sys::invoke(SYS_madvise, block, kBlockSize, MADV_POPULATE_WRITE);
  if (ret == -EINVAL) touch_pages(block);
  return ret == 0 || ret == -EINVAL;
}

}  // namespace

// Either everything is had or nothing is kept, for the caller asks again.
Expected<void> Arena::init(size_t bytes, HugePages huge_pages) {
  uint64_t blocks = bytes / kBlockSize;
  if (blocks == 0) blocks = 1;
  if (blocks > kMaxBlocks) blocks = kMaxBlocks;
  const size_t size = blocks * kBlockSize;
  std::byte* base = reserve_aligned(size);
  if (base == nullptr) return tl::unexpected(Errno{ENOMEM});
  void* folios =
      mapping::reserve(blocks * kBlockPages * sizeof(Folio), MADV_DONTFORK);
  if (folios == nullptr) {
    mapping::release(base, size);
    return tl::unexpected(Errno{ENOMEM});
  }
  const bool never = huge_pages == HugePages::kNever;
  mapping::advise(base, size, never ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
  // The kernel's page cache is in no core file either.
  mapping::advise(base, size, MADV_DONTDUMP);
  base_ = base;
  folios_ = static_cast<Folio*>(folios);
  blocks_ = blocks;
  allowed_.store(blocks, kRelaxed);
  return {};
}

void Arena::advise(int advice) const {
  mapping::advise(base_, blocks_ * kBlockSize, advice);
  mapping::advise(folios_, blocks_ * kBlockPages * sizeof(Folio), advice);
}

void Arena::destroy() {
  if (base_ == nullptr) return;
  mapping::release(base_, blocks_ * kBlockSize);
  mapping::release(folios_, blocks_ * kBlockPages * sizeof(Folio));
  base_ = nullptr;
  folios_ = nullptr;
  blocks_ = 0;
  prepared_ = withdrawn_ = kNoFolio;
  for (FolioId& head : free_) head = kNoFolio;
  orders_.store(0, kRelaxed);
  listed_.store(0, kRelaxed);
  touched_.store(0, kRelaxed);
  prepared_count_.store(0, kRelaxed);
  withdrawn_count_.store(0, kRelaxed);
  allowed_.store(0, kRelaxed);
}

// The smallest free run that fits, so that large ones stay large.
FolioId Arena::allocate(unsigned order) {
  if (order > kMaxOrder || fault::point()) return kNoFolio;
  LockGuard guard(lock_);
  const uint32_t fitting = ~uint32_t{0} << order;
  if ((orders_.load(kRelaxed) & fitting) == 0 && !carve()) return kNoFolio;
  const unsigned from = trailing_zeros(orders_.load(kRelaxed) & fitting);
  const FolioId id = free_[from];
  unlink(id, from);
  return split(id, from, order);
}

void Arena::release(FolioId id, unsigned order) {
  LockGuard guard(lock_);
  set_word(id, order);  // no state bits, even if it is absorbed below
  const FolioId whole = merge(id, &order);
  push(whole, order);
}

// Keeps the generation. Relaxed: no one acts on a free word but under lock_.
void Arena::set_word(FolioId id, uint32_t low) {
  std::atomic<uint32_t>& word = folio(id).word;
  word.store((word.load(kRelaxed) & Folio::kGenerationMask) | low, kRelaxed);
}

bool Arena::is_free(FolioId id, unsigned order) const {
  const uint32_t word = folio(id).word.load(kRelaxed);
  return (word & (Folio::kFree | Folio::kOrderMask)) == (Folio::kFree | order);
}

// While a folio is free its index names the one before it on the list. Atomic
// for the sake of a clock hand that looks at it too late (Folio::set_place).
void Arena::set_previous(FolioId id, FolioId previous) {
  __atomic_store_n(&folio(id).index, previous, __ATOMIC_RELAXED);
}

// Most recently freed first: its memory is warm in the CPU's caches.
void Arena::push(FolioId id, unsigned order) {
  set_word(id, Folio::kFree | order);
  Folio& pushed = folio(id);
  pushed.link = free_[order];
  set_previous(id, kNoFolio);
  if (pushed.link != kNoFolio) set_previous(pushed.link, id);
  free_[order] = id;
  orders_.store(orders_.load(kRelaxed) | (1u << order), kRelaxed);
  add(listed_, uint64_t{1} << order);
}

void Arena::unlink(FolioId id, unsigned order) {
  const FolioId next = folio(id).link;
  const FolioId previous = folio(id).index;
  if (next != kNoFolio) set_previous(next, previous);
  (previous != kNoFolio ? folio(previous).link : free_[order]) = next;
  if (free_[order] == kNoFolio) {
    orders_.store(orders_.load(kRelaxed) & ~(1u << order), kRelaxed);
  }
  set_word(id, order);
  add(listed_, ~uint64_t{0} << order);  // minus 2^order
}

// Frees the upper halves, from the outermost inwards.
FolioId Arena::split(FolioId id, unsigned from, unsigned to) {
  while (from > to) {
    --from;
    push(id + (FolioId{1} << from), from);
  }
  set_word(id, to);
  return id;
}

// Takes free buddies off their lists; the head of the whole.
FolioId Arena::merge(FolioId id, unsigned* order) {
  for (; *order < kMaxOrder; ++*order) {
    const FolioId buddy = ((id - 1) ^ (FolioId{1} << *order)) + 1;
    if (!is_free(buddy, *order)) break;
    unlink(buddy, *order);
    if (buddy < id) id = buddy;
  }
  return id;
}

// A list of whole blocks.
FolioId Arena::pop(FolioId* list, std::atomic<uint64_t>& count) {
  const FolioId id = *list;
  if (id == kNoFolio) return id;
  *list = folio(id).link;
  add(count, ~uint64_t{0});
  return id;
}

void Arena::push(FolioId* list, std::atomic<uint64_t>& count, FolioId id) {
  folio(id).link = *list;
  *list = id;
  add(count, 1);
}

// One more block for the free lists: a prepared one, else a fresh one.
bool Arena::carve() {
  FolioId id = pop(&prepared_, prepared_count_);
  if (id == kNoFolio) id = take_fresh();
  if (id == kNoFolio) return false;
  push(id, kMaxOrder);
  return true;
}

// A block without memory: one that was withdrawn, else one that never had any.
FolioId Arena::take_fresh() {
  if (fresh_blocks() == 0) return kNoFolio;
  const FolioId again = pop(&withdrawn_, withdrawn_count_);
  if (again != kNoFolio) return again;
  const uint64_t block = touched_.load(kRelaxed);
  touched_.store(block + 1, kRelaxed);
  return head_of_block(block);
}

// The block belongs to no list while the kernel clears it, without the lock,
// so storing to its pages can overwrite nothing.
bool Arena::prepare_block() {
  const FolioId id = claim_fresh();
  if (id == kNoFolio) return false;
  const bool populated = populate(memory(id));
  finish_fresh(id, populated);
  return populated;
}

FolioId Arena::claim_fresh() {
  LockGuard guard(lock_);
  const FolioId id = take_fresh();
  if (id != kNoFolio) set_word(id, kMaxOrder);  // next_in_use() steps over it
  return id;
}

// Not populated: without memory, for all we know.
void Arena::finish_fresh(FolioId id, bool populated) {
  LockGuard guard(lock_);
  if (populated) {
    push(&prepared_, prepared_count_, id);
  } else {
    push(&withdrawn_, withdrawn_count_, id);
  }
}

void Arena::allow(uint64_t blocks) {
  if (blocks == 0) blocks = 1;
  allowed_.store(blocks < blocks_ ? blocks : blocks_, kRelaxed);
}

uint64_t Arena::held_blocks() const {
  return touched_.load(kRelaxed) - withdrawn_count_.load(kRelaxed);
}

uint64_t Arena::excess_blocks() const {
  const uint64_t held = held_blocks();
  const uint64_t allowed = allowed_.load(kRelaxed);
  return held > allowed ? held - allowed : 0;
}

uint64_t Arena::fresh_blocks() const {
  const uint64_t held = held_blocks();
  const uint64_t allowed = allowed_.load(kRelaxed);
  return allowed > held ? allowed - held : 0;
}

// As in prepare_block(): on no list while the kernel takes its memory.
bool Arena::withdraw_block() {
  if (excess_blocks() == 0) return false;
  FolioId id;
  {
    LockGuard guard(lock_);
    id = pop(&prepared_, prepared_count_);
    if (id == kNoFolio) {
      id = free_[kMaxOrder];
      if (id == kNoFolio) return false;
      unlink(id, kMaxOrder);
    }
  }
  // Refused where the program has locked all of its memory.
  const bool gone =
      sys::invoke(SYS_madvise, memory(id), kBlockSize, MADV_DONTNEED) == 0;
  LockGuard guard(lock_);
  if (gone) {
    push(&withdrawn_, withdrawn_count_, id);
  } else {
    push(id, kMaxOrder);
  }
  return gone;
}

uint64_t Arena::prepared_blocks() const {
  return prepared_count_.load(kRelaxed);
}

uint64_t Arena::free_pages() const {
  return listed_.load(kRelaxed) +
         (fresh_blocks() + prepared_blocks()) * kBlockPages;
}

int Arena::largest_free_order() const {
  if (fresh_blocks() + prepared_blocks() != 0) return kMaxOrder;
  const uint32_t orders = orders_.load(kRelaxed);
  return orders == 0 ? -1 : static_cast<int>(floor_log2(orders));
}

uint64_t Arena::huge_bytes() const {
  return huge_pages::bytes_in(base_, blocks_ * kBlockSize);
}

size_t Arena::metadata_bytes() const {
  return touched_.load(kRelaxed) * kBlockPages * sizeof(Folio);
}

// Every word ever written to a frame has an order its alignment allows, so a
// step never leaves the block; a word that is out of date costs at most a few
// folios overlooked in this round. Acquire: pairs with begin_fill's release.
FolioId Arena::next_in_use(FolioId from) const {
  const uint64_t end = touched_.load(kRelaxed) * kBlockPages;
  uint64_t frame = from == kNoFolio ? 0 : from - 1;
  while (frame < end) {
    const uint32_t word = folios_[frame].word.load(std::memory_order_acquire);
    if (Folio::in_use(word)) return static_cast<FolioId>(frame + 1);
    frame += uint64_t{1} << Folio::order_of(word);
  }
  return kNoFolio;
}

}  // namespace racache
