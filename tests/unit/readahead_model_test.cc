// SPDX-License-Identifier: MIT
// The policy against its executable model (tests/model): thousands of random
// programs, and after every operation of each the same windows, device ranges,
// folios and marks. Rules that hold in every worked example can still disagree
// where two of them meet; random programs go there.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <fstream>
#include <memory>
#include <sstream>

#include "tests/unit/readahead_sim.h"

namespace racache::readahead {
namespace {

using Folios = std::map<PageIndex, SimFolio>;

std::string number(uint64_t n) { return std::to_string(n); }
std::string word(const char* sign, uint64_t n) {
  std::string text;
  append_number(text, sign, n);
  return text;
}

// One running case.
struct Case {
  std::unique_ptr<SimFile> file;
  Stream streams[2];
};

Case begin_case(std::istream& words) {
  uint64_t size = 0;
  uint32_t ra_pages = 0, io_pages = 0, max_order = 0;
  bool large_forced = false, half_window = false;
  words >> size >> ra_pages >> io_pages >> max_order >> large_forced >>
      half_window;
  Case c;
  c.file = std::make_unique<SimFile>(size, ra_pages, io_pages);
  c.file->limits.max_order = max_order;
  c.file->limits.large_forced = large_forced;
  c.file->limits.half_window = half_window;
  c.streams[0] = c.streams[1] = c.file->open();
  return c;
}

void perform(Case& c, char code, std::istream& words) {
  SimFile& file = *c.file;
  uint64_t a = 0, b = 0;
  int which = 0, advice = 0;
  switch (code) {
    case 'n':
      words >> file.no_memory_from;
      return;
    case 'd':
      words >> a >> b;
      return file.dontneed(a, b);
    case 'a':
      words >> which >> advice;
      return file.advise(c.streams[which], advice);
    case 'r':
      words >> which >> a >> b;
      file.read(c.streams[which], a, b);
      return;
    default:
      words >> which >> a >> b;
  }
  const Stream before = c.streams[which];
  file.willneed(c.streams[which], a, b, code == 'w');
  CHECK(c.streams[which].start == before.start);
  CHECK(c.streams[which].size == before.size);
  CHECK(c.streams[which].async_size == before.async_size);
}

std::string window_word(const Plan& plan) {
  return std::string(1, "-icsfag"[static_cast<int>(plan.kind)]) +
         window_text(plan) +
         (plan.order ? word("@", plan.order) : std::string()) +
         (plan.trim_avoided ? "!" : "");
}

// The folios of a device range, as the file has them now.
std::string range_word(const Folios& folios, PageIndex first, uint64_t pages) {
  std::string text = word("=", first) + ":";
  auto it = folios.find(first);
  for (PageIndex page = first; page < first + pages;) {
    const unsigned order = it->second.order;
    unsigned run = 0;
    while (page < first + pages && it->second.order == order) {
      REQUIRE(it->first == page);
      page += uint64_t{1} << order;
      ++run;
      ++it;
    }
    text += number(run) + "x" + number(order);
    if (page < first + pages) text += ",";
  }
  return text;
}

std::set<PageIndex> marks(const Folios& folios) {
  std::set<PageIndex> marked;
  for (const auto& [index, folio] : folios) {
    if (folio.mark) marked.insert(index);
  }
  return marked;
}

std::string mark_words(const Folios& before, const Folios& after) {
  const std::set<PageIndex> old = marks(before), now = marks(after);
  std::string text;
  for (PageIndex m : now) text += old.count(m) ? std::string() : word(" +", m);
  for (PageIndex m : old) text += now.count(m) ? std::string() : word(" -", m);
  return text;
}

std::string dropped_words(const Folios& before, const Folios& after) {
  std::string text;
  PageIndex first = 0, end = 0;
  const auto flush = [&] {
    if (end != first) text += word(" ~", first) + word("-", end - 1);
  };
  for (const auto& [index, folio] : before) {
    if (after.count(index)) continue;
    if (index != end || end == first) {
      flush();
      first = index;
    }
    end = index + (uint64_t{1} << folio.order);
  }
  flush();
  return text;
}

uint64_t pages(const Folios& folios) {
  uint64_t n = 0;
  for (const auto& entry : folios) n += uint64_t{1} << entry.second.order;
  return n;
}

// Everything that the operation changed; `before` is what there was.
std::string changes(const SimFile& file, const Folios& before) {
  std::string text;
  uint64_t read = 0;
  for (const Plan& plan : file.plans)
    text.append(" ").append(window_word(plan));
  for (const auto& [first, count] : file.ranges) {
    text.append(" ").append(range_word(file.folios, first, count));
    read += count;
  }
  if (read != 0) CHECK(pages(file.folios) == pages(before) + read);
  return text + mark_words(before, file.folios) +
         dropped_words(before, file.folios);
}

// One operation's line: performs what is before the colon, compares the rest.
bool line_holds(Case& c, const std::string& line) {
  const size_t colon = line.find(':');
  std::istringstream words(line.substr(1, colon));
  const Folios before = c.file->folios;
  c.file->plans.clear();
  c.file->ranges.clear();
  perform(c, line[0], words);
  const std::string actual = changes(*c.file, before);
  CHECK(actual == line.substr(colon + 1));
  return actual == line.substr(colon + 1);
}

TEST_CASE("every vector") {
  std::ifstream in(RACACHE_TEST_DATA "/readahead_vectors.txt");
  REQUIRE(in.is_open());
  Case c;
  unsigned cases = 0, operations = 0, wrong = 0;
  bool skip = false;  // the rest of a case that went wrong says nothing
  for (std::string line; std::getline(in, line);) {
    if (line[0] == 'F') {
      std::istringstream words(line.substr(1));
      c = begin_case(words);
      ++cases;
      skip = false;
    } else if (!skip) {
      INFO("case ", cases, ": ", line);
      ++operations;
      skip = !line_holds(c, line);
      wrong += skip;
    }
    if (wrong == 10) break;
  }
  MESSAGE(cases, " cases, ", operations, " operations");
  CHECK(wrong == 0);
  CHECK(cases >= 4000);
}

}  // namespace
}  // namespace racache::readahead
