// SPDX-License-Identifier: MIT
// The rows stand at the end. Above them the parsers and printers they name: as
// templates over the field where a kind of value is shared, as functions where
// an option has rules of its own. Parsing what was printed gives the same.
#include "core/option_table.h"

#include <cstring>
#include <string_view>

#include "core/log.h"
#include "core/option_parse.h"
#include "core/system_limits.h"

namespace racache::options {
namespace {

using std::string_view;

// Words.

constexpr Word<IoMode> kIoWords[] = {{"auto", IoMode::kAuto},
                                     {"uring", IoMode::kUring},
                                     {"threads", IoMode::kThreads},
                                     {"off", IoMode::kOff}};
constexpr Word<HugePages> kHugeWords[] = {{"auto", HugePages::kAuto},
                                          {"always", HugePages::kAlways},
                                          {"never", HugePages::kNever}};
constexpr Word<Coherence> kCoherenceWords[] = {{"lease", Coherence::kLease},
                                               {"trust", Coherence::kTrust}};
constexpr Word<LogLevel> kLogWords[] = {{"error", LogLevel::kError},
                                        {"warn", LogLevel::kWarn},
                                        {"info", LogLevel::kInfo},
                                        {"debug", LogLevel::kDebug}};

// A word of a list, exactly.
template <auto kField, const auto& kWords>
bool parse_word(Config& config, const char* value) {
  for (const auto& word : kWords) {
    if (strcmp(word.text, value) != 0) continue;
    config.*kField = word.value;
    return true;
  }
  return false;
}
template <auto kField, const auto& kWords>
void print_word(const Config& config, Text& out) {
  for (const auto& word : kWords) {
    if (word.value == config.*kField) out << word.text;
  }
}

// Switches, numbers, strings.

template <bool Config::*kField>
bool parse_flag(Config& config, const char* value) {
  return parse_switch(value, config.*kField);
}

// The bounds fit the field's type, so the cast loses nothing.
template <auto kField, uint64_t kLow, uint64_t kHigh>
bool parse_count(Config& config, const char* value) {
  uint64_t n;
  if (!parse_range(value, kLow, kHigh, n)) return false;
  config.*kField =
      static_cast<std::remove_reference_t<decltype(config.*kField)>>(n);
  return true;
}
template <auto kField>
void print_count(const Config& config, Text& out) {
  out << static_cast<uint64_t>(config.*kField);
}

// -1 is "auto".
template <int64_t Config::*kField, uint64_t kLow, uint64_t kHigh>
bool parse_auto(Config& config, const char* value) {
  if (strcmp(value, "auto") == 0) {
    config.*kField = -1;
    return true;
  }
  return parse_count<kField, kLow, kHigh>(config, value);
}
template <int64_t Config::*kField>
void print_auto(const Config& config, Text& out) {
  if (config.*kField < 0) {
    out << "auto";
  } else {
    out << config.*kField;
  }
}

// Any string is a list of globs; the pointer is into the environment until the
// loader copies it.
template <const char* Config::*kField>
bool parse_string(Config& config, const char* value) {
  config.*kField = value;
  return true;
}
template <const char* Config::*kField>
void print_string(const Config& config, Text& out) {
  out << config.*kField;
}

// The options with rules of their own.

bool parse_enabled(Config& config, const char* value) {
  return parse_switch(value, config.enabled);
}
void print_enabled(const Config& config, Text& out) {
  out << (config.enabled ? "on" : "off");
}
void print_populate(const Config& config, Text& out) {
  out << (config.populate ? '1' : '0');
}

// More memory than there is would have the program killed by its first big
// scan. Asked for by mistake far more often than on purpose.
uint64_t within(uint64_t usable, uint64_t bytes, const char* value) {
  uint64_t most = usable / 10 * 9;
  if (most < kMinCache) most = kMinCache;
  if (bytes <= most) return bytes;
  TextBuffer<256> m;
  m << "RACACHE_SIZE=";
  m.printable(value, 40);
  m << ": more than 90% of what this process may use; using ";
  m.human_bytes(most);
  log::line(LogLevel::kWarn, m);
  return round_down(most, kBlockSize);
}

bool parse_size(Config& config, const char* value) {
  uint64_t bytes;
  if (!parse_cache_size(value, kMaxCache, bytes)) return false;
  config.size = value;
  return true;
}
void print_size(const Config& config, Text& out) {
  print_bytes(config.size_bytes, out);
}

bool parse_min_file(Config& config, const char* value) {
  return parse_bytes(value, config.min_file);
}
void print_min_file(const Config& config, Text& out) {
  print_bytes(config.min_file, out);
}

constexpr Word<StatsTarget> kStatsWords[] = {{"off", StatsTarget::kOff},
                                             {"stderr", StatsTarget::kStderr}};
constexpr Word<StatsTarget> kStatsPrefixes[] = {{"text:", StatsTarget::kText},
                                                {"json:", StatsTarget::kJson}};
constexpr size_t kMaxPath = 4096;

bool parse_stats(Config& config, const char* value) {
  if (parse_word<&Config::stats, kStatsWords>(config, value)) {
    config.stats_path = "";
    return true;
  }
  for (const auto& prefix : kStatsPrefixes) {
    const size_t n = strlen(prefix.text);
    if (strncmp(value, prefix.text, n) != 0) continue;
    const size_t length = strlen(value + n);
    if (length == 0 || length >= kMaxPath) return false;
    config.stats = prefix.value;
    config.stats_path = value + n;
    return true;
  }
  return false;
}
void print_stats(const Config& config, Text& out) {
  print_word<&Config::stats, kStatsWords>(config, out);
  print_word<&Config::stats, kStatsPrefixes>(config, out);
  out << config.stats_path;
}

// Relative to what directory would depend on the moment of the start.
bool parse_live(Config& config, const char* value) {
  if (value[0] == '/' && strlen(value) < kMaxPath) {
    config.live = true;
    config.live_directory = value;
    return true;
  }
  if (!parse_switch(value, config.live)) return false;
  config.live_directory = "";
  return true;
}
void print_live(const Config& config, Text& out) {
  out << (!config.live                    ? "off"
          : config.live_directory[0] == 0 ? "on"
                                          : config.live_directory);
}

struct Rule {
  const char* text;
  bool Config::*field;
};
constexpr Rule kRules[] = {{"large_forced", &Config::large_forced},
                           {"half_window", &Config::half_window},
                           {"single_lookup", &Config::single_lookup},
                           {"overlap_skip", &Config::overlap_skip}};

bool disable(Config& config, string_view word) {
  for (const Rule& rule : kRules) {
    if (word != rule.text) continue;
    config.*rule.field = false;
    return true;
  }
  return false;
}

void report_unknown_rule(string_view word) {
  TextBuffer<64> copy;
  copy.append(word.data(), word.size());
  TextBuffer<256> m;
  m << "RACACHE_DISABLE=";
  m.printable(copy.c_str(), 40);
  m << ": no such rule (accepts large_forced, half_window, single_lookup, "
       "overlap_skip); ignoring that word";
  log::line(LogLevel::kError, m);
}

// Unlike the others this never refuses the value as a whole: one misspelt word
// must not switch the others' rules on again.
bool parse_disable(Config& config, const char* value) {
  string_view rest = value;
  bool reported = false;
  while (!rest.empty()) {
    size_t n = rest.find(',');
    if (n == string_view::npos) n = rest.size();
    const string_view word(rest.data(), n);
    rest.remove_prefix(n < rest.size() ? n + 1 : n);
    if (word.empty() || disable(config, word) || reported) continue;
    report_unknown_rule(word);
    reported = true;  // one line a variable
  }
  return true;
}
void print_disable(const Config& config, Text& out) {
  bool first = true;
  for (const Rule& rule : kRules) {
    if (config.*rule.field) continue;
    if (!first) out << ',';
    out << rule.text;
    first = false;
  }
}

}  // namespace

// One megabyte of KiB: a window of 1 GiB is beyond any device's use.
constexpr uint64_t kMaxKb = 1 << 20;

#define RACACHE_OPTIONS(X)                                                     \
  X("RACACHE", "on", "on, off, 1, 0", "off: every call passes through",        \
    parse_enabled, print_enabled)                                              \
  X("RACACHE_SIZE", "25%", "bytes with K, M, G, from 8M; or 1% to 90%",        \
    "memory of the cache; percent of the smaller of RAM and cgroup limit",     \
    parse_size, print_size)                                                    \
  X("RACACHE_READ_AHEAD_KB", "auto", "auto, 0 to 1048576",                     \
    "largest readahead window; auto: the device's read_ahead_kb",              \
    (parse_auto<&Config::read_ahead_kb, 0, kMaxKb>),                           \
    print_auto<&Config::read_ahead_kb>)                                        \
  X("RACACHE_IO_KB", "auto", "auto, 4 to 1048576",                             \
    "largest device request; auto: the device's max_sectors_kb",               \
    (parse_auto<&Config::io_kb, 4, kMaxKb>), print_auto<&Config::io_kb>)       \
  X("RACACHE_MAX_ORDER", "9", "0 to 9",                                        \
    "largest folio is 4 KiB << order; 0: no large folios",                     \
    (parse_count<&Config::max_order, 0, kMaxOrder>),                           \
    print_count<&Config::max_order>)                                           \
  X("RACACHE_MIN_FILE", "64K", "bytes with K, M, G",                           \
    "smaller files are left to the kernel", parse_min_file, print_min_file)    \
  X("RACACHE_INCLUDE", "", "path globs, separated by ':'",                     \
    "only these files are cached; empty: all", parse_string<&Config::include>, \
    print_string<&Config::include>)                                            \
  X("RACACHE_EXCLUDE", "", "path globs, separated by ':'",                     \
    "these files are never cached", parse_string<&Config::exclude>,            \
    print_string<&Config::exclude>)                                            \
  X("RACACHE_PROGRAMS", "", "program-name globs, separated by ':'; !not",      \
    "only these programs are served; empty: all",                              \
    parse_string<&Config::programs>, print_string<&Config::programs>)          \
  X("RACACHE_IO", "auto", "auto, uring, threads, off",                         \
    "how the device is read; auto: uring, else threads",                       \
    (parse_word<&Config::io, kIoWords>), (print_word<&Config::io, kIoWords>))  \
  X("RACACHE_HUGEPAGES", "auto", "auto, always, never",                        \
    "whether the cache's memory asks for huge pages",                          \
    (parse_word<&Config::huge_pages, kHugeWords>),                             \
    (print_word<&Config::huge_pages, kHugeWords>))                             \
  X("RACACHE_POPULATE", "0", "0, 1, on, off",                                  \
    "1: the cache's memory is prepared as a whole at the first use",           \
    parse_flag<&Config::populate>, print_populate)                             \
  X("RACACHE_COHERENCE", "lease", "lease, trust",                              \
    "trust: files named by RACACHE_INCLUDE never change, no lease needed",     \
    (parse_word<&Config::coherence, kCoherenceWords>),                         \
    (print_word<&Config::coherence, kCoherenceWords>))                         \
  X("RACACHE_STATS", "stderr", "stderr, off, text:PATH, json:PATH",            \
    "statistics at exit; in PATH %p is the pid, %c the program", parse_stats,  \
    print_stats)                                                               \
  X("RACACHE_LIVE", "off", "off, on, 0, 1, or a directory's absolute path",    \
    "on: racache stat can watch the process; in $XDG_RUNTIME_DIR/racache",     \
    parse_live, print_live)                                                    \
  X("RACACHE_POLL_US", "auto", "auto, 0 to 1000000",                           \
    "microseconds to poll for a completion before sleeping",                   \
    (parse_auto<&Config::poll_us, 0, 1000000>), print_auto<&Config::poll_us>)  \
  X("RACACHE_DEPTH", "auto", "auto, 1 to 64",                                  \
    "readahead windows in flight for an established stream; 1: as the kernel", \
    (parse_auto<&Config::depth, 1, 64>), print_auto<&Config::depth>)           \
  X("RACACHE_EVICT", "s3fifo", "s3fifo, lru, fifo, clock",                     \
    "what has to make room; s3fifo: what was read once goes before the rest",  \
    (parse_word<&Config::evict, kEvictWords>),                                 \
    (print_word<&Config::evict, kEvictWords>))                                 \
  X("RACACHE_VERIFY", "0", "0 to 4294967295",                                  \
    "N: every Nth cached read is compared with the kernel's; 0: none",         \
    (parse_count<&Config::verify, 0, 0xffffffff>),                             \
    print_count<&Config::verify>)                                              \
  X("RACACHE_LOG", "warn", "error, warn, info, debug",                         \
    "which messages are written to standard error",                            \
    (parse_word<&Config::log, kLogWords>),                                     \
    (print_word<&Config::log, kLogWords>))                                     \
  X("RACACHE_DISABLE", "",                                                     \
    "large_forced, half_window, single_lookup, overlap_skip, with ','",        \
    "rules that are switched off, for comparison", parse_disable,              \
    print_disable)

#define RACACHE_X(...) +1
static_assert(RACACHE_OPTIONS(RACACHE_X) == kRows);
#undef RACACHE_X

#define RACACHE_X(name, fallback, accepts, help, parse, print) \
  {name, fallback, accepts, help},
constinit const OptionRow rows[kRows] = {RACACHE_OPTIONS(RACACHE_X)};
#undef RACACHE_X

#define RACACHE_X(name, fallback, accepts, help, parse, print) {parse, print},
constinit const Handler handlers[kRows] = {RACACHE_OPTIONS(RACACHE_X)};
#undef RACACHE_X

uint64_t cache_size(const char* value) {
  const uint64_t usable = limits::read_memory().usable();
  uint64_t bytes;
  if (!parse_cache_size(value, usable, bytes)) return kMinCache;
  return within(usable, bytes, value);
}

}  // namespace racache::options
