// SPDX-License-Identifier: MIT
// The whole engine against the executable model (tests/model): random programs
// of reads, hints and advice go through cache, fill, index and backend, and
// after each operation device reads, folios, marks and the stream's window are
// the model's. The pure policy agrees with it already (readahead_model_test);
// this is about everything between the policy and a program's read.
//
// RACACHE_ENGINE_VECTORS names another file of programs, which
// engine_vectors.py --live uses.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
#include <fcntl.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/unit/engine_fixture.h"

namespace racache {
namespace {

struct FolioState {
  unsigned order;
  bool mark;
  bool operator==(const FolioState&) const = default;
};
using Folios = std::map<PageIndex, FolioState>;

struct Window {
  char kind;
  uint64_t start, pages, lookahead;
  bool kept_more;
};

// What a line says after its colon.
struct Changes {
  std::vector<Window> windows;
  std::vector<std::vector<std::pair<PageIndex, unsigned>>> ranges;
  std::vector<PageIndex> marks, unmarks;
  std::vector<std::pair<PageIndex, PageIndex>> dropped;
};

Window window_of(std::istringstream& in, char kind) {
  Window w{kind, 0, 0, 0, false};
  char sign;
  in >> w.start >> sign >> w.pages >> sign >> w.lookahead;
  std::string rest;
  in >> rest;
  w.kept_more = rest.find('!') != std::string::npos;
  return w;
}

// "=PAGE:NxO,NxO"
std::vector<std::pair<PageIndex, unsigned>> range_of(std::istringstream& in) {
  std::vector<std::pair<PageIndex, unsigned>> folios;
  PageIndex page = 0;
  unsigned count = 0, order = 0;
  char sign;
  in >> page;
  while (in >> sign >> count >> sign >> order) {
    for (; count != 0; --count) {
      folios.emplace_back(page, order);
      page += uint64_t{1} << order;
    }
  }
  return folios;
}

Changes parse(const std::string& text) {
  Changes c;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::istringstream in(word.substr(1));
    PageIndex a = 0, b = 0;
    char sign;
    switch (word[0]) {
      case '=':
        c.ranges.push_back(range_of(in));
        break;
      case '+':
        in >> a;
        c.marks.push_back(a);
        break;
      case '-':
        in >> a;
        c.unmarks.push_back(a);
        break;
      case '~':
        in >> a >> sign >> b;
        c.dropped.emplace_back(a, b);
        break;
      default:
        c.windows.push_back(window_of(in, word[0]));
    }
  }
  return c;
}

void apply(const Changes& c, Folios& folios) {
  for (const auto& range : c.ranges) {
    for (const auto& [page, order] : range) folios[page] = {order, false};
  }
  for (const auto& [first, last] : c.dropped) {
    folios.erase(folios.lower_bound(first), folios.upper_bound(last));
  }
  for (PageIndex page : c.marks) folios.at(page).mark = true;
  for (PageIndex page : c.unmarks) {
    if (folios.count(page)) folios.at(page).mark = false;
  }
}

struct DeviceRead {
  PageIndex first;
  uint64_t pages;
  unsigned pieces;  // of memory
};

// All that the fake device is asked for; it answers late and in any order.
struct Device {
  std::vector<DeviceRead> reads;
  uint64_t asked = 0;

  static void script(void* user, const ReadOp& op, FakeFate& fate) {
    Device& device = *static_cast<Device*>(user);
    device.reads.push_back(
        {op.offset >> kPageShift, op.bytes >> kPageShift, op.iov_count});
    fate.latency = 1 + static_cast<unsigned>(++device.asked * 7 % 5);
  }
};

constexpr int kStreams = 3;

class Run {
 public:
  Run() : fixture_(options(device_)) {}
  ~Run() {
    if (running_) fixture_.forget();
    fixture_.check_nothing_leaked();
  }

  void begin(std::istream& words) {
    if (running_) fixture_.forget();
    fixture_.check_nothing_leaked();
    uint64_t size = 0;
    uint32_t ra_pages = 0, io_pages = 0;
    Config& config = fixture_.engine().config;
    config.depth = 1;  // the policy alone; more is pipeline_test's
    words >> size >> ra_pages >> io_pages >> config.max_order >>
        config.large_forced >> config.half_window;
    running_ = fixture_.adopt(0, size, ra_pages, io_pages);
    REQUIRE(running_);
    folios_.clear();
    for (OpenStream& stream : streams_) fixture_.open(stream);
  }

  void perform(char code, std::istream& words, const Changes& expected) {
    device_.reads.clear();
    const Counters before = fixture_.counters();
    act(code, words, expected);
    check_device(expected);
    check_counters(before, fixture_.counters(), expected);
    apply(expected, folios_);
    CHECK(folios_ == actual_folios());
    if ((++operations_ & 3) == 0) fixture_.settle();
  }

 private:
  static EngineFixture::Options options(Device& device) {
    EngineFixture::Options options;
    options.backend.order = FakeOrder::kRandom;
    options.backend.capacity = 1 << 20;
    options.backend.content = EngineFixture::content;
    options.backend.script = Device::script;
    options.backend.script_user = &device;
    return options;
  }

  void act(char code, std::istream& words, const Changes& expected) {
    uint64_t a = 0, b = 0;
    int which = 0;
    if (code == 'd') {
      words >> a >> b;
      fixture_.settle();  // what is being read is not dropped
      return cache::dontneed(fixture_.file(), a, b);
    }
    words >> which >> a >> b;
    OpenStream& stream = streams_[which];
    if (code == 'r') return read(stream, a, b, expected);
    const readahead::Stream old = stream.stream;
    if (code == 'a') {
      constexpr int kAdvice[] = {POSIX_FADV_NORMAL, POSIX_FADV_RANDOM,
                                 POSIX_FADV_SEQUENTIAL};
      cache::advise(fixture_.file(), stream, kAdvice[a]);
    } else {
      cache::willneed(fixture_.file(), stream, a, b, -1);
      while (fixture_.engine().background.pump_hints()) {
      }
    }
    check_stream(stream.stream, old, {});
  }

  void read(OpenStream& stream, uint64_t pos, uint64_t count,
            const Changes& expected) {
    const readahead::Stream old = stream.stream;
    const uint64_t size = fixture_.file().size;
    const uint64_t want = pos < size ? std::min(count, size - pos) : 0;
    const cache::ReadResult result = fixture_.read(stream, pos, count);
    CHECK(result.complete);
    CHECK(result.done == want);
    CHECK(fixture_.right(pos, want));
    const int64_t end = want ? static_cast<int64_t>(pos + want) : old.prev_pos;
    CHECK(stream.stream.prev_pos == end);
    check_stream(stream.stream, old, expected.windows);
  }

  // The last window of an operation is what the stream remembers.
  static void check_stream(const readahead::Stream& now,
                           readahead::Stream expected,
                           const std::vector<Window>& windows) {
    for (const Window& w : windows) {
      if (w.kind == 'f' || w.kind == 's') continue;
      expected.start = w.start;
      expected.size = static_cast<uint32_t>(w.pages);
      expected.async_size = static_cast<uint32_t>(w.lookahead);
    }
    CHECK(now.start == expected.start);
    CHECK(now.size == expected.size);
    CHECK(now.async_size == expected.async_size);
  }

  // A range is one device read unless it is more than the device takes at once,
  // or lies in more pieces of memory than one read can have.
  void check_device(const Changes& expected) {
    const uint32_t io_pages = fixture_.file().io_pages;
    const uint64_t most = io_pages < 16 ? 16 : io_pages;
    size_t n = 0;
    for (const auto& range : expected.ranges) {
      uint64_t pages = 0;
      for (size_t i = 0; i < range.size(); ++i) {
        const auto& [page, order] = range[i];
        const uint64_t size = uint64_t{1} << order;
        if (pages == 0) {
          REQUIRE(n < device_.reads.size());
          CHECK(device_.reads[n].first == page);
        }
        pages += size;
        REQUIRE(device_.reads[n].pages >= pages);
        if (device_.reads[n].pages > pages) continue;
        CHECK((pages <= most || pages == size));
        if (i + 1 != range.size()) {
          const uint64_t next = uint64_t{1} << range[i + 1].second;
          const bool full =
              pages + next > most || device_.reads[n].pieces == kMaxIov;
          CHECK(full);
        }
        ++n;
        pages = 0;
      }
      CHECK(pages == 0);
    }
    CHECK(n == device_.reads.size());
  }

  static void check_counters(const Counters& before, const Counters& after,
                             const Changes& expected) {
    uint64_t sync = 0, async = 0, forced = 0, alone = 0, kept = 0;
    for (const Window& w : expected.windows) {
      sync += w.kind == 'i' || w.kind == 'c';
      async += w.kind == 'a' || w.kind == 'g';
      forced += w.kind == 'f';
      alone += w.kind == 's';
      kept += w.kept_more;
    }
    CHECK(after.sync_windows - before.sync_windows == sync);
    CHECK(after.async_windows - before.async_windows == async);
    CHECK(after.forced - before.forced == forced);
    CHECK(after.standalone - before.standalone == alone);
    CHECK(after.trims_avoided - before.trims_avoided == kept);
    CHECK(after.order_fallbacks == before.order_fallbacks);
    CHECK(after.evicted == before.evicted);
  }

  Folios actual_folios() {
    File& file = fixture_.file();
    Folios found;
    for (PageIndex page = 0; page < file.pages;) {
      page = file.index.next_present(page, file.pages);
      if (page >= file.pages) break;
      const FolioId id = file.index.lookup(page);
      const Folio& folio = fixture_.engine().arena.folio(id);
      const uint32_t word = folio.word.load();
      const PageIndex end = page + folio.pages();
      CHECK(folio.index == page);
      CHECK(Folio::in_use(word));
      for (PageIndex p = page; p < end; ++p) {
        CHECK(file.index.lookup(p) == id);
      }
      found[page] = {Folio::order_of(word), (word & Folio::kMark) != 0};
      page = end;
    }
    return found;
  }

  Device device_;
  EngineFixture fixture_;
  OpenStream streams_[kStreams] = {};
  Folios folios_;
  bool running_ = false;
  unsigned operations_ = 0;
};

std::string vectors() {
  const char* other = std::getenv("RACACHE_ENGINE_VECTORS");
  return other != nullptr ? other : RACACHE_TEST_DATA "/engine_vectors.txt";
}

TEST_CASE("every program") {
  std::ifstream in(vectors());
  REQUIRE(in.is_open());
  Run run;
  unsigned programs = 0, operations = 0;
  std::string setting;
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(':');
    std::istringstream words(line.substr(1, colon));
    CAPTURE(setting);
    CAPTURE(line);
    if (line[0] == 'F') {
      setting = line;
      run.begin(words);
      ++programs;
    } else {
      run.perform(line[0], words, parse(line.substr(colon + 1)));
      ++operations;
    }
  }
  CHECK(programs >= 50);
  CHECK(operations >= 500);
}

TEST_CASE("a buffer larger than the file is a large request") {
  Device device;
  EngineFixture::Options options;
  options.backend.script = Device::script;
  options.backend.script_user = &device;
  EngineFixture fixture(options);
  REQUIRE(fixture.adopt(0, 100 * kPageSize, 32, 128));
  OpenStream stream{};
  fixture.open(stream);
  // Of the 50 pages that there are, it would be a read outside any stream.
  CHECK(fixture.read(stream, 50 * kPageSize, 1 << 20).done == 50 * kPageSize);
  CHECK(stream.stream.start == 50);
  CHECK(stream.stream.size == 128);
  fixture.forget();
}

TEST_CASE("what a hint leaves for later begins with a block") {
  EngineFixture::Options options;
  options.backend.capacity = 1 << 20;
  EngineFixture fixture(options);
  REQUIRE(fixture.adopt(0, 2048 * kPageSize, 32, 2048));
  OpenStream stream{};
  for (PageIndex page : {0, 100, 300, 511}) {
    const Counters before = fixture.counters();
    cache::willneed(fixture.file(), stream, page << kPageShift, 0, -1);
    fixture.settle();
    const uint64_t whole = fixture.counters().inserted_by_order[kMaxOrder] -
                           before.inserted_by_order[kMaxOrder];
    CHECK(whole == (page == 0 ? 4 : 3));
    cache::dontneed(fixture.file(), 0, 0);
  }
  fixture.forget();
}

}  // namespace
}  // namespace racache
