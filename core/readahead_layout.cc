// SPDX-License-Identifier: MIT
// Which folios a plan becomes: kernel-semantics.md 2.4, 2.5, 2.7 and the rule
// of seed 000.
//
// Invariants: [index_, end_) is what is left of the current run; a folio never
// reaches past end_, nor past gap_end_. The state is of constant size: what is
// cached is asked of the view once for each gap, not once for each page.
#include "core/readahead.h"

namespace racache::readahead {
namespace {

constexpr uint64_t kForcedRun = kBlockPages;  // 2.6: 2 MiB at a time

unsigned smaller(unsigned a, unsigned b) { return a < b ? a : b; }

// The largest order whose folios may begin at `index`.
unsigned natural_order(PageIndex index) {
  return index == 0 ? kMaxOrder : smaller(kMaxOrder, trailing_zeros(index));
}

// 2.7 step 3.
unsigned clamped_order(const Limits& limits, const Plan& plan) {
  const unsigned by_size = floor_log2(plan.pages);
  return smaller(smaller(limits.max_order, plan.order), by_size);
}

}  // namespace

Layout::Layout(Stream& stream, const Limits& limits, const View& view,
               const Plan& plan)
    : view_(view),
      file_pages_(limits.file_pages),
      rest_(plan.start),
      plan_end_(plan.start + plan.pages),
      lookahead_(plan.lookahead),
      run_pages_(plan.kind == Kind::kForced ? kForcedRun : plan.pages),
      bounded_order_(limits.large_forced ? limits.max_order : 0) {
  if (!plan.ordered || plan.pages == 0) return;
  stream.order = static_cast<uint16_t>(clamped_order(limits, plan));
  if (limits.max_order != 0) begin_ordered(plan, stream.order);
}

Step Layout::next() {
  for (;;) {
    if ((cut_ || index_ >= end_) && pending_) return submit();
    cut_ = false;
    if (index_ >= end_) {
      if (!begin_rest()) return {Step::kDone, false, 0, index_};
    } else if (ordered_) {
      const unsigned order = ordered_order();
      if (index_ + (uint64_t{1} << order) <= gap_end_) return insert(order);
      fall_back();  // the insertion could only collide
    } else if (index_ < gap_end_) {
      return insert(forced_order());
    } else {
      enter_gap();
    }
  }
}

void Layout::inserted() {
  index_ += uint64_t{1} << tried_;
  folio_order_ = kMaxOrder;
  pending_ = true;
}

void Layout::failed(Failure failure) {
  if (ordered_) return fall_back();
  gap_end_ = index_;  // what was seen of the file may be out of date
  if (tried_ == 0) {
    if (failure == Failure::kNoMemory) return stop_run();
    ++index_;  // someone else reads this page
    cut_ = true;
    folio_order_ = kMaxOrder;
  } else if (failure == Failure::kNoMemory) {
    order_ = tried_ - 1;
  } else {
    folio_order_ = tried_ - 1;
  }
}

// 2.7 steps 1 and 4. All of the plan is this run's: only a failure leaves a
// rest.
void Layout::begin_ordered(const Plan& plan, unsigned order) {
  rest_ = plan_end_;
  index_ = plan.start;
  end_ = plan_end_ < file_pages_ ? plan_end_ : file_pages_;
  if (index_ < end_) gap_end_ = view_.next_present(view_.file, index_, end_);
  mark_ = plan_end_ - lookahead_;
  order_ = order;
  ordered_ = true;
}

// 2.5 and 2.4 steps 1 and 2. A lookahead longer than what is left of the
// request, clipped to the file, puts the mark before the run: there is none.
void Layout::begin_bounded(PageIndex start, uint64_t pages,
                           uint64_t lookahead) {
  const uint64_t left = start < file_pages_ ? file_pages_ - start : 0;
  if (pages > left) pages = left;
  index_ = start;
  end_ = start + pages;
  gap_end_ = start;
  mark_ = end_ - lookahead;
  order_ = bounded_order_;
  folio_order_ = kMaxOrder;
  ordered_ = false;
}

// The next run, when there is one.
bool Layout::begin_rest() {
  if (rest_ >= plan_end_ || rest_ >= file_pages_) return false;
  const uint64_t left = plan_end_ - rest_;
  const uint64_t pages = left < run_pages_ ? left : run_pages_;
  begin_bounded(rest_, pages, lookahead_);
  rest_ += pages;
  return true;
}

// 2.7 step 8. What is already inserted is a device range of its own.
void Layout::fall_back() {
  begin_bounded(index_, plan_end_ - index_, lookahead_);
  cut_ = true;
}

// 2.4 step 4: steps over cached pages, which split the request.
void Layout::enter_gap() {
  const PageIndex hole = view_.next_hole(view_.file, index_, end_ - index_);
  cut_ = hole != index_;
  index_ = hole;
  if (hole < end_) gap_end_ = view_.next_present(view_.file, hole + 1, end_);
}

void Layout::stop_run() { end_ = index_; }

// 2.7 step 5.
unsigned Layout::ordered_order() const {
  const unsigned aligned = smaller(order_, natural_order(index_));
  return smaller(aligned, floor_log2(end_ - index_));
}

// Seed 000, large folios for forced requests: the largest order that alignment,
// what is left of the request and the next cached page allow; no more than
// memory has been seen to give (order_), no more than where this very folio
// collided (folio_order_).
unsigned Layout::forced_order() const {
  const unsigned fits = floor_log2(gap_end_ - index_);
  return smaller(smaller(smaller(order_, folio_order_), natural_order(index_)),
                 fits);
}

Step Layout::submit() {
  pending_ = cut_ = false;
  return {Step::kSubmit, false, 0, index_};
}

// The folio that contains the mark page carries the mark.
Step Layout::insert(unsigned order) {
  tried_ = order;
  const bool mark = round_down(mark_, uint64_t{1} << order) == index_;
  return {Step::kInsert, mark, static_cast<uint8_t>(order), index_};
}

}  // namespace racache::readahead
