// SPDX-License-Identifier: MIT
// Traces of reads and hints: what `racache sim` replays.
//
// A line is TIME FILE OFFSET LENGTH [HINT], or a comment that begins with '#'.
// TIME is in seconds. FILE is any name without white space (%20 stands for a
// space, %25 for '%'); what follows its last '#' tells open descriptions of
// one file apart. HINT is read (the default), open (LENGTH is the file's size),
// willneed, dontneed, normal, random, sequential or noreuse. A file is as large
// as its reads and opens say.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

namespace racache::cli {

// No OFFSET + LENGTH is larger: the index holds pages below 2^32 - 1.
inline constexpr uint64_t kMostFile = ((uint64_t{1} << 32) - 2) * 4096;

enum class Hint : uint8_t {
  kRead,
  kOpen,
  kWillneed,
  kDontneed,
  kNormal,
  kRandom,
  kSequential,
  kNoreuse,
};

struct TraceEvent {
  uint32_t file;         // of Trace::files
  uint32_t description;  // numbered from 0
  Hint hint;
  uint64_t offset, length;
  double time;
};

struct TracedFile {
  std::string name;
  uint64_t size;
};

struct Trace {
  std::vector<TracedFile> files;
  std::vector<TraceEvent> events;
  uint32_t descriptions = 0;
  uint64_t read_bytes = 0;     // asked for
  uint64_t touched_bytes = 0;  // of files, each counted once, in pages
};

// Throws std::runtime_error naming the line that is wrong.
Trace parse_trace(std::istream& in);
const char* hint_name(Hint hint);
// A name as it stands in a trace.
std::string escaped_name(const std::string& name);
// The output of `strace -f -ttt -y` (or without -y) as a trace. Returns the
// number of events; reads of what is no regular file are left out.
size_t convert_strace(std::istream& in, std::ostream& out);

}  // namespace racache::cli
