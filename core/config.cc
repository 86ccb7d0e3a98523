// SPDX-License-Identifier: MIT
// Loading: the table itself is in option_table.cc.
#include "core/config.h"

#include <sys/mman.h>
#include <cstring>
#include <string_view>

#include "core/glob.h"
#include "core/log.h"
#include "core/option_table.h"
#include "core/sys.h"

namespace racache {
namespace {

constexpr std::string_view kPrefix = "RACACHE_";
// Read by the racache command, and so found in what it starts.
constexpr std::string_view kCommandNames[] = {"RACACHE_LIBRARY"};

constexpr size_t kShownValue = 40;
using Message = TextBuffer<512>;

struct Entry {
  std::string_view name;
  const char* value;
};

// False when the string is not NAME=value of ours.
bool split(const char* variable, Entry& entry) {
  if (strncmp(variable, "RACACHE", 7) != 0) return false;
  const char* equals = strchr(variable, '=');
  if (equals == nullptr) return false;
  entry.name = {variable, static_cast<size_t>(equals - variable)};
  entry.value = equals + 1;
  return entry.name == "RACACHE" || entry.name.starts_with(kPrefix);
}

// Names are not terminated; printable() wants them so. What does not fit is
// not shown anyway.
void append_name(std::string_view name, Message& out) {
  TextBuffer<64> copy;
  copy.append(name.data(), name.size());
  out.printable(copy.c_str(), kShownValue);
}

void report_bad(const OptionRow& row, const char* value) {
  Message m;
  m << row.name << '=';
  m.printable(value, kShownValue);
  m << ": not understood (accepts " << row.accepts << "); using "
    << row.fallback;
  log::line(LogLevel::kError, m);  // shown whatever RACACHE_LOG says
}

void report_unknown(std::string_view name) {
  for (std::string_view known : kCommandNames) {
    if (name == known) return;
  }
  Message m;
  append_name(name, m);
  m << ": no such option; it is ignored (racache config lists them)";
  log::line(LogLevel::kWarn, m);
}

size_t find_row(std::string_view name) {
  size_t i = 0;
  while (i < options::kRows && name != options::rows[i].name) ++i;
  return i;
}

// The loop over the environment is outside, so this is all that remembers.
using Seen = uint32_t;  // bit i: row i has had its value
static_assert(options::kRows <= 32);

void take_entry(Config& config, const Entry& entry, Seen& seen) {
  const size_t i = find_row(entry.name);
  if (i == options::kRows) return report_unknown(entry.name);
  const Seen bit = Seen{1} << i;
  if ((seen & bit) != 0) return;
  seen |= bit;
  if (!options::handlers[i].parse(config, entry.value)) {
    report_bad(options::rows[i], entry.value);
  }
}

// The level first: it decides which of the other messages are shown.
void load_log_level(Config& config, const char* const* environment) {
  const size_t row = find_row("RACACHE_LOG");
  for (; *environment != nullptr; ++environment) {
    Entry entry;
    if (!split(*environment, entry) || find_row(entry.name) != row) continue;
    (void)options::handlers[row].parse(config, entry.value);  // reported later
    break;
  }
  log::set_level(config.log);
}

// The string fields, for copying them.
const char** string_field(Config& config, size_t i) {
  const char** fields[] = {
      &config.include,    &config.exclude,        &config.programs,
      &config.stats_path, &config.live_directory, &config.runtime_directory,
      &config.size};
  return i < sizeof fields / sizeof *fields ? fields[i] : nullptr;
}

// Where processes of this user keep what lives as long as they do.
void find_runtime_directory(Config& config, const char* const* environment) {
  constexpr std::string_view kName = "XDG_RUNTIME_DIR=/";
  for (; *environment != nullptr; ++environment) {
    if (strncmp(*environment, kName.data(), kName.size()) != 0) continue;
    config.runtime_directory = *environment + kName.size() - 1;
    return;
  }
}

void copy_strings(Config& config) {
  size_t size = 0;
  for (size_t i = 0; const char** field = string_field(config, i); ++i) {
    if (**field == 0) *field = "";  // not the environment's empty string
    if (**field != 0) size += strlen(*field) + 1;
  }
  if (size == 0) return;
  const long map = sys::invoke(SYS_mmap, 0L, size, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
  if (sys::failed(map)) return;  // they stay where they are
  config.strings = reinterpret_cast<char*>(map);
  config.strings_size = size;
  char* to = config.strings;
  for (size_t i = 0; const char** field = string_field(config, i); ++i) {
    if (**field == 0) continue;
    const size_t n = strlen(*field) + 1;
    memcpy(to, *field, n);
    *field = to;
    to += n;
  }
}

// Evaluated per open file, not per read: the list is walked as it stands.
bool any_matches_path(const char* list, const char* path) {
  std::string_view rest = list;
  for (;;) {
    const std::string_view glob = next_glob(rest);
    if (glob.empty()) return false;
    if (glob_match_path(glob, path)) return true;
  }
}

}  // namespace

void load_config_without_size(Config& config, const char* const* environment) {
  static constexpr const char* kEmpty[] = {nullptr};
  if (environment == nullptr) environment = kEmpty;
  config = Config{};
  load_log_level(config, environment);
  Seen seen = 0;
  for (const char* const* e = environment; *e != nullptr; ++e) {
    Entry entry;
    if (split(*e, entry)) take_entry(config, entry, seen);
  }
  if (config.live) find_runtime_directory(config, environment);
  copy_strings(config);
}

const char* size_option(const Config& config) {
  if (*config.size != 0) return config.size;
  return options::rows[find_row("RACACHE_SIZE")].fallback;
}

void resolve_size(Config& config) {
  if (config.size_bytes != 0) return;
  config.size_bytes = options::cache_size(size_option(config));
}

void load_config(Config& config, const char* const* environment) {
  load_config_without_size(config, environment);
  resolve_size(config);
}

void unload_config(Config& config) {
  if (config.strings != nullptr) {
    sys::invoke(SYS_munmap, config.strings, config.strings_size);
  }
  config = Config{};
}

bool program_wanted(const Config& config, const char* program) {
  std::string_view rest = config.programs;
  bool any_named = false;
  bool named = false;
  for (;;) {
    std::string_view glob = next_glob(rest);
    if (glob.empty()) return named || !any_named;
    const bool excludes = glob[0] == '!';
    if (excludes) glob.remove_prefix(1);
    const bool match = glob_match(glob, program);
    if (excludes && match) return false;
    if (!excludes) any_named = true;
    named |= match;  // an exclusion that did not match leaves it alone
  }
}

PathVerdict judge_path(const Config& config, const char* path) {
  if (any_matches_path(config.exclude, path)) return PathVerdict::kExcluded;
  if (config.include[0] == 0) return PathVerdict::kWanted;
  return any_matches_path(config.include, path) ? PathVerdict::kNamed
                                                : PathVerdict::kExcluded;
}

void live_directory(const Config& config, Text& out) {
  if (config.live_directory[0] != 0) {
    out << config.live_directory;
    return;
  }
  const long user = sys::invoke(SYS_geteuid);
  if (config.runtime_directory[0] != 0) {
    out << config.runtime_directory;
  } else if (user == 0) {
    out << "/run";
  } else {
    out << "/run/user/" << static_cast<int64_t>(user);
  }
  out << "/racache";
}

const OptionRow* option_rows(size_t* count) {
  *count = options::kRows;
  return options::rows;
}

void print_option(const Config& config, size_t row, Text& out) {
  options::handlers[row].print(config, out);
}

size_t option_value(const Config& config, size_t row, char* out, size_t room) {
  Text text(out, room);
  print_option(config, row, text);
  return text.wanted();
}

}  // namespace racache
