// SPDX-License-Identifier: MIT
// A simulated file for the tests of the readahead policy: a page cache that is
// an array, reads that complete at once, memory that can be made to run out.
// The read loop is that of kernel-semantics.md 2.10 and 2.11: batches of at
// most 31 folios, a mark acted upon before anything is copied.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/readahead.h"

namespace racache::readahead {

struct SimFolio {
  unsigned order = 0;
  bool mark = false;
  bool operator==(const SimFolio&) const = default;
};

class SimFile {
 public:
  static constexpr uint64_t kToEnd = uint64_t{1} << 62;

  SimFile(uint64_t size, uint32_t ra_pages, uint32_t io_pages)
      : size_(size), ra_pages_(ra_pages) {
    limits.file_pages = pages_of(size);
    limits.io_pages = io_pages;
    owner_.resize(limits.file_pages, kHole);
  }

  Limits limits;
  unsigned no_memory_from = kOrders;  // allocations of this order fail
  std::set<PageIndex> hidden;         // taken, but the view shows a hole
  std::map<PageIndex, SimFolio> folios;
  std::vector<Plan> plans;
  std::vector<std::pair<PageIndex, uint64_t>> ranges;  // device reads: +pages
  std::vector<unsigned> tried;  // orders of all insertions tried

  [[nodiscard]] Stream open() const {
    Stream stream;
    stream.ra_pages = ra_pages_;
    return stream;
  }
  [[nodiscard]] uint64_t size() const { return size_; }
  [[nodiscard]] bool present(PageIndex page) const {
    return page < owner_.size() && owner_[page] != kHole;
  }
  // Views are asked about pages of the file only.
  [[nodiscard]] View view() const {
    return {this,
            [](const void* f, PageIndex page) { return self(f).at(page); },
            [](const void* f, PageIndex from, uint64_t scan) {
              return self(f).next_hole(from, scan);
            },
            [](const void* f, PageIndex from, uint64_t scan) {
              return self(f).previous_hole(from, scan);
            },
            [](const void* f, PageIndex from, PageIndex limit) {
              while (from < limit && !self(f).at(from)) ++from;
              return from;
            }};
  }

  // Puts a folio into the cache without reading it.
  void put(PageIndex index, unsigned order, bool mark = false) {
    for (uint64_t i = 0; i < uint64_t{1} << order; ++i) {
      owner_[index + i] = index;
    }
    folios[index] = {order, mark};
  }

  void carry_out(Stream& stream, const Plan& plan) {
    if (plan.kind == Kind::kNone) return;
    plans.push_back(plan);
    Layout layout(stream, limits, view(), plan);
    PageIndex first = 0, end = 0;  // what awaits the next kSubmit
    for (;;) {
      const Step step = layout.next();
      if (step.action == Step::kDone) break;
      if (step.action == Step::kSubmit) {
        REQUIRE(first < end);
        ranges.emplace_back(first, end - first);
        first = end = 0;
      } else if (insert(layout, step)) {
        if (first == end) first = end = step.index;
        REQUIRE(step.index == end);  // a device range has no gap
        end += uint64_t{1} << step.order;
      }
    }
    REQUIRE(first == end);
  }

  // Returns the bytes read.
  uint64_t read(Stream& stream, uint64_t pos, uint64_t count) {
    const uint64_t begin = pos;
    const uint64_t end = std::min(pos + count, size_);
    while (pos < end) {
      const PageIndex next =
          get_folios(stream, pos >> kPageShift, pages_of(begin + count));
      pos = std::min(end, next << kPageShift);
    }
    if (pos > begin) stream.prev_pos = static_cast<int64_t>(pos);
    return pos > begin ? pos - begin : 0;
  }
  // Reads of `count` bytes, one after the other, until `stop`.
  void read_on(Stream& stream, uint64_t pos, uint64_t count,
               uint64_t stop = kToEnd) {
    for (uint64_t n; pos < stop; pos += n) {
      n = read(stream, pos, count);
      if (n == 0) break;
    }
  }

  void force(const Stream& stream, PageIndex index, uint64_t pages,
             bool clamp = true) {
    Stream copy = stream;
    carry_out(copy, on_force(stream, limits, index, pages, clamp));
    REQUIRE(copy.order == stream.order);
  }
  void willneed(const Stream& stream, uint64_t offset, uint64_t length,
                bool clamp = true) {
    const uint64_t last =
        length != 0 ? offset + length - 1 : (uint64_t{1} << 63) - 1;
    const PageIndex first = offset >> kPageShift;
    force(stream, first, (last >> kPageShift) - first + 1, clamp);
  }
  void dontneed(uint64_t offset, uint64_t length) {
    const uint64_t last =
        length != 0 ? offset + length - 1 : (uint64_t{1} << 63) - 1;
    const PageIndex first = pages_of(offset);
    const PageIndex end =
        last == size_ - 1 ? limits.file_pages : (last + 1) >> kPageShift;
    for (auto it = folios.lower_bound(first); it != folios.end();) {
      const PageIndex stop = it->first + (uint64_t{1} << it->second.order);
      if (stop > end) break;
      std::fill(owner_.begin() + static_cast<long>(it->first),
                owner_.begin() + static_cast<long>(stop), kHole);
      it = folios.erase(it);
    }
  }
  void advise(Stream& stream, int advice) const {
    stream.random = advice == 1;
    if (advice != 1) stream.ra_pages = ra_pages_ * (advice == 2 ? 2 : 1);
  }

  // The device takes io_pages at a time.
  [[nodiscard]] uint64_t device_requests() const {
    uint64_t n = 0;
    for (const auto& range : ranges) {
      n += (range.second + limits.io_pages - 1) / limits.io_pages;
    }
    return n;
  }

 private:
  static constexpr PageIndex kHole = ~PageIndex{0};
  static constexpr unsigned kBatch = 31;

  static const SimFile& self(const void* f) {
    return *static_cast<const SimFile*>(f);
  }
  [[nodiscard]] bool at(PageIndex page) const {
    REQUIRE(page < limits.file_pages);
    return owner_[page] != kHole;
  }
  [[nodiscard]] PageIndex next_hole(PageIndex from, uint64_t scan) const {
    const PageIndex limit = from + scan;
    while (from < limit && at(from)) ++from;
    return from;
  }
  [[nodiscard]] PageIndex previous_hole(PageIndex from, uint64_t scan) const {
    for (; scan != 0 && from != ~PageIndex{0} && at(from); --scan) --from;
    return scan != 0 ? from : from + 1;
  }

  bool insert(Layout& layout, const Step& step) {
    tried.push_back(step.order);
    if (step.order >= no_memory_from) {
      layout.failed(Failure::kNoMemory);
      return false;
    }
    const PageIndex stop = step.index + (uint64_t{1} << step.order);
    REQUIRE(stop <= limits.file_pages);
    const auto taken = hidden.lower_bound(step.index);
    bool collides = taken != hidden.end() && *taken < stop;
    for (PageIndex i = step.index; i < stop; ++i) collides |= present(i);
    if (collides) {
      layout.failed(Failure::kCollision);
      return false;
    }
    put(step.index, step.order, step.mark);
    layout.inserted();
    return true;
  }

  // The last of the folios that cover [page, ...) without a gap, up to the
  // batch's end or a mark; the map's end when `page` is absent.
  std::map<PageIndex, SimFolio>::iterator batch_at(PageIndex page,
                                                   PageIndex end) {
    auto last = folios.end();
    for (unsigned n = 0; n < kBatch && page < end && present(page); ++n) {
      last = folios.find(owner_[page]);
      if (last->second.mark) break;
      page = last->first + (uint64_t{1} << last->second.order);
    }
    return last;
  }

  // Returns the page after the last one that can be copied.
  PageIndex get_folios(Stream& stream, PageIndex page, PageIndex end) {
    auto last = batch_at(page, end);
    if (last == folios.end()) {
      carry_out(stream, on_miss(stream, limits, view(), page, end - page));
      last = batch_at(page, end);
    }
    if (last == folios.end()) {
      put(page, 0);
      ranges.emplace_back(page, 1);
      last = folios.find(page);
    }
    const PageIndex first = last->first;
    const unsigned order = last->second.order;
    if (last->second.mark && stream.ra_pages != 0) {
      last->second.mark = false;
      carry_out(stream,
                on_mark(stream, limits, view(), first, order, end - first));
    }
    return first + (uint64_t{1} << order);
  }

  uint64_t size_;
  uint32_t ra_pages_;
  std::vector<PageIndex> owner_;  // the first page of the folio at this page
};

// "4+8/8": where, how many pages, how many of them behind the mark. Text is
// built by appending: GCC 12 warns of overlaps in operator+ that cannot be.
inline void append_number(std::string& text, const char* before, uint64_t n) {
  text.append(before).append(std::to_string(n));
}
inline std::string window_text(const Plan& plan) {
  std::string text;
  append_number(text, "", plan.start);
  append_number(text, "+", plan.pages);
  append_number(text, "/", plan.lookahead);
  return text;
}
inline std::string windows_text(const std::vector<Plan>& plans) {
  std::string text;
  for (const Plan& plan : plans) {
    text.append(text.empty() ? "" : " ").append(window_text(plan));
  }
  return text;
}
// "0:3 8:1": first page and order of each folio.
inline std::string layout_text(const SimFile& file) {
  std::string text;
  for (const auto& [index, folio] : file.folios) {
    append_number(text, text.empty() ? "" : " ", index);
    append_number(text, ":", folio.order);
  }
  return text;
}

}  // namespace racache::readahead
