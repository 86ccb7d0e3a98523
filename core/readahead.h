// SPDX-License-Identifier: MIT
// The readahead policy: pure. (stream state, file view, request, limits) ->
// a plan. No I/O, no clock, no locks, no allocation. The specification is
// kernel-semantics.md, sections 2.1 to 2.9, with the intended gap search, and
// the four seed changes of section 3.
#pragma once

#include "core/base.h"

namespace racache::readahead {

// Per open file description (kernel-semantics.md 1.1). Not thread-safe: its
// owner guards it.
struct Stream {
  uint64_t start = 0;       // first page of the most recent window
  uint32_t size = 0;        // its pages
  uint32_t async_size = 0;  // pages at its end whose first carries the mark
  uint32_t ra_pages = 0;    // window limit; 0: readahead off
  uint16_t order = 0;       // folio order remembered for the stream
  bool random = false;      // FADV_RANDOM
  bool noreuse = false;     // FADV_NOREUSE
  int64_t prev_pos = -1;    // position after the last byte returned
};

struct Limits {
  uint64_t file_pages = 0;  // (size - 1) / 4096 + 1
  uint32_t io_pages = 0;    // the device's largest request
  uint32_t max_order = kMaxOrder;
  bool large_forced = true;  // seed 000
  bool half_window = true;   // seed 002
};

// What the policy may ask about the file.
struct View {
  const void* file;
  bool (*present)(const void* file, PageIndex page);
  PageIndex (*next_hole)(const void* file, PageIndex from, uint64_t max_scan);
  PageIndex (*previous_hole)(const void* file, PageIndex from,
                             uint64_t max_scan);
  // First present page >= from, < limit; limit when none.
  PageIndex (*next_present)(const void* file, PageIndex from, PageIndex limit);
};

enum class Kind : uint8_t {
  kNone,        // nothing to read
  kInit,        // sync: a new stream
  kContext,     // sync: found by looking backwards
  kStandalone,  // sync: outside any stream
  kForced,      // WILLNEED, readahead(2), FADV_RANDOM, ra_pages == 0
  kAsync,       // a mark where it was expected
  kForeign,     // another reader's mark
};

// A plan is what was decided; Layout turns it into folios.
struct Plan {
  Kind kind = Kind::kNone;
  bool ordered = false;       // 2.7 order_read, else 2.4/2.5 unbounded
  bool trim_avoided = false;  // the half-window rule kept more (seed 002)
  PageIndex start = 0;
  uint64_t pages = 0;      // as decided, before clipping to the file's end
  uint64_t lookahead = 0;  // async_size; 0: no mark
  uint16_t order = 0;      // ordered: the stream's, not clamped yet
};

// 2.8: page `index` is wanted and absent; `request` pages are left of the read.
[[nodiscard]] Plan on_miss(Stream& stream, const Limits& limits,
                           const View& view, PageIndex index, uint64_t request);
// 2.9: the marked folio [first, first + 2^order) was met, and its mark cleared
// by the caller (the kernel leaves it set while ra_pages is 0); `request` pages
// are left of the read, counted from `first`.
[[nodiscard]] Plan on_mark(Stream& stream, const Limits& limits,
                           const View& view, PageIndex first, unsigned order,
                           uint64_t request);
// 2.6: one forced request. `clamp` applies the kernel's silent limit of
// max(io_pages, ra_pages); without it the whole range is planned. Does not
// touch the stream (the defect of seed 004 that is not to be copied).
[[nodiscard]] Plan on_force(const Stream& stream, const Limits& limits,
                            PageIndex index, uint64_t pages, bool clamp);

// One step of a plan.
struct Step {
  enum Action : uint8_t {
    kInsert,  // a folio of `order` at `index`; then inserted() or failed()
    kSubmit,  // what was inserted since the last kSubmit is one device range
    kDone,
  } action;
  bool mark;
  uint8_t order;
  PageIndex index;
};

enum class Failure : uint8_t { kCollision, kNoMemory };

// Walks a plan folio by folio (2.4, 2.5, 2.7, 3.1). The caller inserts what
// next() says and reports; presence may change between steps, so a collision
// can also be reported where the view showed a hole.
//
// A walk is a sequence of runs, each a range of pages. An ordered plan is one
// ordered run, which the first failure replaces by a bounded run over what is
// left; any other plan is bounded runs only: one, or one for each 2 MiB of a
// forced request. A device range never spans two runs.
class Layout {
 public:
  // Writes the clamped order of an ordered plan back to the stream (2.7 step
  // 3), which is what keeps it from growing for ever.
  Layout(Stream& stream, const Limits& limits, const View& view,
         const Plan& plan);
  [[nodiscard]] Step next();
  void inserted();
  void failed(Failure failure);

 private:
  void begin_ordered(const Plan& plan, unsigned order);
  void begin_bounded(PageIndex start, uint64_t pages, uint64_t lookahead);
  bool begin_rest();
  void fall_back();
  void enter_gap();
  void stop_run();
  [[nodiscard]] unsigned ordered_order() const;
  [[nodiscard]] unsigned forced_order() const;
  [[nodiscard]] Step submit();
  [[nodiscard]] Step insert(unsigned order);

  View view_;
  uint64_t file_pages_;
  PageIndex rest_;         // what the runs so far leave: [rest_, plan_end_)
  PageIndex plan_end_;     // as decided, maybe past the end of the file
  PageIndex index_ = 0;    // where the next folio goes
  PageIndex end_ = 0;      // of this run
  PageIndex gap_end_ = 0;  // no page of [index_, gap_end_) was seen cached
  PageIndex mark_ = 0;     // absolute; outside the run: no mark
  uint64_t lookahead_;
  uint64_t run_pages_;                // the longest bounded run
  unsigned bounded_order_;            // largest order a bounded run begins with
  unsigned order_ = 0;                // largest order for the rest of this run
  unsigned folio_order_ = kMaxOrder;  // largest for the folio at index_
  unsigned tried_ = 0;                // order of the last kInsert
  bool ordered_ = false;
  bool pending_ = false;  // folios were inserted since the last kSubmit
  bool cut_ = false;      // the device range ends before index_
};

}  // namespace racache::readahead
