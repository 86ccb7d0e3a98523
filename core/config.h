// SPDX-License-Identifier: MIT
// The option table and its values (RACACHE_*). One table holds name, default,
// parser and help; `racache config`, the README and the man page print it.
// Bad input: one line on stderr naming variable, value and what is accepted;
// the default is used; the program runs.
//
// Strings are copied out of the environment into a mapping of their own:
// programs overwrite their environment to change their title.
#pragma once

#include "core/arena.h"
#include "core/base.h"
#include "core/eviction_policy.h"
#include "core/text.h"

namespace racache {

enum class IoMode : uint8_t { kAuto, kUring, kThreads, kOff };
enum class Coherence : uint8_t { kLease, kTrust };
enum class StatsTarget : uint8_t { kStderr, kOff, kText, kJson };
enum class LogLevel : uint8_t { kError, kWarn, kInfo, kDebug };

// -1 in an int64_t field means auto.
struct Config {
  bool enabled = true;
  const char* size = "";    // as given; empty: the default
  uint64_t size_bytes = 0;  // that of min(RAM, cgroup limit); 0 not yet known
  int64_t read_ahead_kb = -1;
  int64_t io_kb = -1;
  uint32_t max_order = kMaxOrder;
  uint64_t min_file = 64 << 10;
  const char* include = "";  // ':'-separated globs; never null
  const char* exclude = "";
  const char* programs = "";
  IoMode io = IoMode::kAuto;
  HugePages huge_pages = HugePages::kAuto;
  bool populate = false;
  Coherence coherence = Coherence::kLease;
  StatsTarget stats = StatsTarget::kStderr;
  const char* stats_path = "";
  bool live = false;
  const char* live_directory = "";     // RACACHE_LIVE=/a/directory
  const char* runtime_directory = "";  // XDG_RUNTIME_DIR, if that is to be used
  int64_t poll_us = -1;
  int64_t depth = -1;
  EvictKind evict = EvictKind::kS3Fifo;
  uint64_t verify = 0;
  LogLevel log = LogLevel::kWarn;
  bool large_forced = true;  // RACACHE_DISABLE=large_forced,half_window,
  bool half_window = true;   //   single_lookup,overlap_skip
  bool single_lookup = true;
  bool overlap_skip = true;
  char* strings = nullptr;  // the mapping that the strings above lie in
  size_t strings_size = 0;
};

// Reads `environment` ("NAME=value" strings, null-terminated array; null is an
// empty one). Allocates nothing but one mapping, and that only when a string
// is set; calls nothing that may (no getenv). Problems are reported through
// log (capped), then replaced by defaults. Of a name that occurs twice the
// first counts, as in getenv(3). Also sets the log level.
//
// Without the size in bytes, which depends on files of /proc and /sys that most
// programs need not wait for.
void load_config_without_size(Config& config, const char* const* environment);
void resolve_size(Config& config);
// RACACHE_SIZE as it stands, or its default.
[[nodiscard]] const char* size_option(const Config& config);
// Both.
void load_config(Config& config, const char* const* environment);
// Gives the mapping of the strings back. Tests only: a process keeps it.
void unload_config(Config& config);

// Whether the program (its short name) is to be cached: RACACHE_PROGRAMS.
[[nodiscard]] bool program_wanted(const Config& config, const char* program);
// RACACHE_INCLUDE / EXCLUDE on an absolute path. kNamed: INCLUDE names it (so
// memory file systems are allowed); kWanted: no list speaks against it.
enum class PathVerdict : uint8_t { kExcluded, kWanted, kNamed };
[[nodiscard]] PathVerdict judge_path(const Config& config, const char* path);

// Where RACACHE_LIVE writes: its own directory, else $XDG_RUNTIME_DIR/racache,
// else that of the user under /run. It need not exist.
void live_directory(const Config& config, Text& out);

// One row of the option table, for printing and for tests.
struct OptionRow {
  const char* name;      // "RACACHE_SIZE"
  const char* fallback;  // default, as text
  const char* accepts;   // "bytes with K, M, G, or percent"
  const char* help;      // one line
};
[[nodiscard]] const OptionRow* option_rows(size_t* count);
// The value in force of row i, as text that the variable would accept.
// Returns its length (snprintf rules).
size_t option_value(const Config& config, size_t row, char* out, size_t room);
void print_option(const Config& config, size_t row, Text& out);

}  // namespace racache
