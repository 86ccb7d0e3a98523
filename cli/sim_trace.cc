// SPDX-License-Identifier: MIT
#include "cli/sim_trace.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <stdexcept>

namespace racache::cli {
namespace {

constexpr const char* kHintNames[] = {"read",       "open",   "willneed",
                                      "dontneed",   "normal", "random",
                                      "sequential", "noreuse"};
// What one read(2) brings at most.
constexpr uint64_t kMostRead = 0x7ffff000;

// Page numbers, from `first` to before `end`.
struct Range {
  uint64_t first, end;
};

// How many pages the ranges cover together.
uint64_t covered(std::vector<Range>& ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.first < b.first; });
  uint64_t count = 0, done = 0;
  for (const Range& r : ranges) {
    if (r.end <= done) continue;
    count += r.end - std::max(r.first, done);
    done = r.end;
  }
  return count;
}

class Parser {
 public:
  Trace parse(std::istream& in) {
    std::string line;
    while (std::getline(in, line)) {
      ++line_;
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (!line.empty() && line[0] != '#') take(line);
    }
    measure();
    return std::move(trace_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error("line " + std::to_string(line_) + ": " + what);
  }

  uint64_t number(const std::string& text) const {
    try {
      size_t used = 0;
      const uint64_t n = std::stoull(text, &used);
      if (used == text.size() && text[0] != '-' && n <= kMostFile) return n;
    } catch (const std::logic_error&) {
    }
    fail("'" + text + "' is not a number of bytes up to 16 TiB");
  }

  Hint hint(const std::string& word) const {
    for (size_t i = 0; i < std::size(kHintNames); ++i) {
      if (word == kHintNames[i]) return static_cast<Hint>(i);
    }
    fail("no such hint: " + word);
  }

  void take(const std::string& line) {
    std::istringstream words(line);
    std::string time, name, offset, length, word, more;
    words >> time >> name >> offset >> length;
    if (length.empty()) fail("TIME FILE OFFSET LENGTH [HINT] is wanted");
    if (!(words >> word)) word = "read";
    if (words >> more) fail("more than five words");
    TraceEvent event{};
    try {
      event.time = std::stod(time);
    } catch (const std::logic_error&) {
      fail("'" + time + "' is not a time");
    }
    event.hint = hint(word);
    event.offset = number(offset);
    event.length = number(length);
    if (event.length > kMostFile - event.offset) {
      fail("OFFSET and LENGTH go beyond 16 TiB, the largest file");
    }
    event.file = file_of(name.substr(0, name.rfind('#')));
    event.description = description_of(name);
    add(event);
  }

  // Hints may name more than there is, as "all of it".
  void add(const TraceEvent& event) {
    const bool read = event.hint == Hint::kRead;
    if (read && event.length > kMostRead) {
      fail("no read brings more than " + std::to_string(kMostRead) + " bytes");
    }
    if (read) trace_.read_bytes += event.length;
    if (read || event.hint == Hint::kOpen) {
      uint64_t& size = trace_.files[event.file].size;
      size = std::max(size, event.offset + event.length);
    }
    trace_.events.push_back(event);
  }

  uint32_t file_of(const std::string& name) {
    const auto [at, fresh] =
        files_.emplace(name, static_cast<uint32_t>(files_.size()));
    if (fresh) trace_.files.push_back({name, 0});
    return at->second;
  }

  uint32_t description_of(const std::string& name) {
    const auto [at, fresh] = descriptions_.emplace(name, trace_.descriptions);
    if (fresh) ++trace_.descriptions;
    return at->second;
  }

  // How large the data is: pages read, each once.
  void measure() {
    std::vector<std::vector<Range>> ranges(trace_.files.size());
    for (const TraceEvent& e : trace_.events) {
      if (e.hint != Hint::kRead || e.length == 0) continue;
      ranges[e.file].push_back(
          {e.offset / 4096, (e.offset + e.length - 1) / 4096 + 1});
    }
    for (auto& r : ranges) trace_.touched_bytes += covered(r) * 4096;
  }

  Trace trace_;
  std::map<std::string, uint32_t> files_, descriptions_;
  uint64_t line_ = 0;
};

}  // namespace

const char* hint_name(Hint hint) {
  return kHintNames[static_cast<size_t>(hint)];
}

std::string escaped_name(const std::string& name) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const char c : name) {
    const unsigned char u = static_cast<unsigned char>(c);
    if (u > ' ' && c != '%' && c != '#') {
      out += c;
    } else {
      out += {'%', kHex[u >> 4], kHex[u & 15]};
    }
  }
  return out;
}

Trace parse_trace(std::istream& in) { return Parser().parse(in); }

}  // namespace racache::cli
