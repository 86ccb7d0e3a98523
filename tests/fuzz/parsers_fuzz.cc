// SPDX-License-Identifier: MIT
// Everything that reads text from outside: the environment, cgroup and sysfs
// files, the mount table, globs. The first byte of the input chooses the
// parser. What is checked beyond "no crash" are the parsers' promises.
#include <cstdint>
#include <cstring>
#include <string>

#include "core/config.h"
#include "core/glob.h"
#include "core/option_parse.h"
#include "core/option_table.h"
#include "core/system_limits.h"

namespace {

using namespace racache;

void require(bool promise) {
  if (!promise) __builtin_trap();
}

// Any variable with any value; what was accepted must print as something that
// is accepted again and prints the same.
void fuzz_option(const std::string& input) {
  if (input.empty()) return;
  const auto row = static_cast<unsigned char>(input[0]) % options::kRows;
  const std::string value = input.substr(1);
  Config config;
  config.size_bytes = options::kMinCache;
  if (!options::handlers[row].parse(config, value.c_str())) return;
  char first[1024];
  if (option_value(config, row, first, sizeof first) >= sizeof first) return;
  const std::string kept = first;
  Config again;
  require(options::handlers[row].parse(again, kept.c_str()));
  char second[1024];
  option_value(again, row, second, sizeof second);
  require(kept == second);
}

// An environment of lines.
void fuzz_environment(std::string input) {
  const char* environment[16] = {};
  size_t count = 0;
  char* line = input.data();
  while (line != nullptr && count < 15) {
    environment[count++] = line;
    line = strchr(line, '\n');
    if (line != nullptr) *line++ = 0;
  }
  Config config;
  load_config(config, environment);
  require(config.size_bytes >= options::kMinCache);
  require(config.max_order <= kMaxOrder);
  (void)judge_path(config, "/var/lib/data/file.db");
  (void)program_wanted(config, "program");
  unload_config(config);
}

void fuzz_groups(std::string_view input) {
  const auto members = limits::parse_membership(input);
  require(members.v2.empty() || members.v2[0] == '/');
  const auto mounts = limits::parse_mounts(input);
  TextBuffer<128> directory;
  const size_t end =
      limits::group_directory(mounts.v1_memory, members.v2, directory);
  require(end <= directory.size());
}

void fuzz_numbers(std::string_view input) {
  (void)limits::chosen_word(input);
  uint64_t field;
  if (limits::parse_field(input, "MemAvailable", field)) {
    require(limits::slack_of(field, field) >= limits::slack_of(field, 0));
  }
  uint64_t number;
  if (limits::parse_number(input, number) && number < (uint64_t{1} << 62)) {
    require(limits::parse_limit(input) == number);
  }
  uint64_t bytes;
  if (!options::parse_bytes(input, bytes)) return;
  TextBuffer<32> printed;
  options::print_bytes(bytes, printed);
  uint64_t again;
  require(options::parse_bytes({printed.c_str(), printed.size()}, again));
  require(again == bytes);
}

void fuzz_glob(std::string_view input) {
  const size_t half = input.size() / 2;
  const std::string_view pattern = input.substr(0, half);
  const std::string_view text = input.substr(half);
  if (glob_match(pattern, text) && !pattern.empty() &&
      pattern.find('/') != std::string_view::npos) {
    require(glob_match_path(pattern, text));
  }
  std::string_view list = input;
  size_t left = list.size();
  while (!next_glob(list).empty()) {
    require(list.size() < left);
    left = list.size();
  }
}

void fuzz_text(const std::string& input) {
  TextBuffer<64> small;
  small.json_string(input.c_str());
  require(strlen(small.c_str()) == small.size());
  TextBuffer<512> line;
  line.printable(input.c_str(), 40);
  require(line.size() <= 40);
  for (size_t i = 0; i < line.size(); ++i) {
    require(static_cast<unsigned char>(line.c_str()[i]) >= 0x20);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string input(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 6) {
    case 0:
      fuzz_option(input);
      break;
    case 1:
      fuzz_environment(input);
      break;
    case 2:
      fuzz_groups(input);
      break;
    case 3:
      fuzz_numbers(input);
      break;
    case 4:
      fuzz_glob(input);
      break;
    default:
      fuzz_text(input);
      break;
  }
  return 0;
}
