// SPDX-License-Identifier: MIT
// The statistics as JSON. The keys are a promise to those who parse them:
// none is ever missing, whatever happened, and a new one is a new version.
#include "core/stats.h"

namespace racache::stats {
namespace {

// Writes the members of objects and arrays, with the commas between them.
// Knows no types and no nesting: `first_` is right because a container that
// was closed is itself an element of the one around it.
class Json {
 public:
  explicit Json(Text& out) : out_(out) {}

  void open(char bracket) {
    out_ << bracket;
    first_ = true;
  }
  void open(const char* key, char bracket) {
    name(key);
    open(bracket);
  }
  void close(char bracket) {
    out_ << bracket;
    first_ = false;
  }
  void number(const char* key, uint64_t n) {
    name(key);
    out_ << n;
  }
  void seconds(const char* key, double value) {
    name(key);
    out_.fixed(value, 6);
  }
  void string(const char* key, const char* s) {
    name(key);
    out_.json_string(s);
  }
  template <class Number>
  void numbers(const char* key, const Number* n, size_t count) {
    open(key, '[');
    for (size_t i = 0; i < count; ++i) {
      next();
      out_ << n[i];
    }
    close(']');
  }
  // The separator before an element without a key.
  void next() {
    if (!first_) out_ << ',';
    first_ = false;
  }
  void name(const char* key) {
    next();
    out_.json_string(key) << ':';
  }

 private:
  Text& out_;
  bool first_ = true;
};

// Each value as its variable would be written, so that a run can be repeated
// from its statistics.
void put_config(const Config& config, Json& json, Text& out) {
  json.open("config", '{');
  size_t rows;
  const OptionRow* row = option_rows(&rows);
  for (size_t i = 0; i < rows; ++i) {
    json.name(row[i].name);
    print_option(config, i, out.open_quote());
    out.close_quote();
  }
  json.close('}');
}

void put_reads(const Counters& c, Json& json) {
  json.open("reads", '{');
  json.number("calls", c.read_calls);
  json.number("bytes", c.read_bytes);
  json.number("hits", c.hits);
  json.number("misses", c.misses);
  json.number("hit_bytes", c.hit_bytes);
  json.number("syscalls_avoided", c.syscalls_avoided);
  json.close('}');
}

void put_device(const Counters& c, Json& json) {
  json.open("device", '{');
  json.number("requests", c.device_requests);
  json.number("bytes", c.device_bytes);
  json.number("used_bytes", c.used_bytes);
  json.number("from_page_cache_bytes", c.from_page_cache_bytes);
  json.close('}');
}

void put_readahead(const Counters& c, Json& json) {
  json.open("readahead", '{');
  json.number("sync_windows", c.sync_windows);
  json.number("async_windows", c.async_windows);
  json.number("forced", c.forced);
  json.number("standalone", c.standalone);
  json.number("marks_hit", c.marks_hit);
  json.number("overlap_skips", c.overlap_skips);
  json.number("trims_avoided", c.trims_avoided);
  json.close('}');
}

void put_folios(const Snapshot& s, Json& json) {
  json.open("folios", '{');
  json.number("live", s.live_folios);
  json.numbers("by_order", s.live_by_order, kOrders);
  json.numbers("inserted_by_order", s.counters.inserted_by_order, kOrders);
  json.number("order_fallbacks", s.counters.order_fallbacks);
  json.number("evicted", s.counters.evicted);
  json.close('}');
}

void put_index_and_waits(const Counters& c, Json& json) {
  json.open("index", '{');
  json.number("lookups", c.lookups);
  json.close('}');
  json.open("waits", '{');
  json.number("count", c.wait_count);
  json.seconds("seconds", static_cast<double>(c.wait_ns) / 1e9);
  json.seconds("polled_seconds", static_cast<double>(c.polled_ns) / 1e9);
  json.close('}');
}

// Of the reasons only those that occurred.
void put_files(const Snapshot& s, Json& json) {
  json.open("files", '{');
  json.number("adopted", s.counters.adopted);
  json.number("lease_breaks", s.counters.lease_breaks);
  json.open("kernel", '{');
#define RACACHE_X(reason, text)                                                \
  if (uint64_t n = s.kernel_files[static_cast<size_t>(Reason::reason)]; n > 0) \
    json.number(text, n);
  RACACHE_REASONS(RACACHE_X)
#undef RACACHE_X
  json.close('}');
  json.close('}');
}

void put_memory(const Snapshot& s, Json& json) {
  json.open("memory", '{');
  json.number("limit", s.memory_limit);
  json.number("used", s.memory_used);
  json.number("metadata", s.memory_metadata);
  json.number("huge", s.memory_huge);
  json.number("given_back", s.memory_given_back);
  json.seconds("pressed_seconds", s.memory_pressed);
  json.close('}');
}

void put_top_files(const Snapshot& s, Json& json) {
  json.open("top_files", '[');
  for (unsigned i = 0; i < s.top_count && i < kTopFiles; ++i) {
    json.next();
    json.open('{');
    json.string("path", s.top[i].path);
    json.number("reads", s.top[i].reads);
    json.number("hits", s.top[i].hits);
    json.number("device_bytes", s.top[i].device_bytes);
    json.close('}');
  }
  json.close(']');
}

}  // namespace

size_t format_json(const Snapshot& s, const Config& config, Text& out) {
  Json json(out);
  json.open('{');
  json.string("version", RACACHE_VERSION);
  json.number("pid", static_cast<uint64_t>(s.pid));
  json.string("program", s.program);
  json.seconds("seconds", s.seconds);
  put_config(config, json, out);
  put_reads(s.counters, json);
  put_device(s.counters, json);
  put_readahead(s.counters, json);
  put_folios(s, json);
  put_index_and_waits(s.counters, json);
  put_files(s, json);
  put_memory(s, json);
  put_top_files(s, json);
  json.close('}');
  out << '\n';
  return out.size();
}

}  // namespace racache::stats
