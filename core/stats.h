// SPDX-License-Identifier: MIT
// Statistics on exit: collect, then print as text (aligned, at most 15 lines)
// or as JSON with the stable keys of the README. A process that cached nothing
// prints nothing.
#pragma once

#include "core/config.h"
#include "core/counters.h"

namespace racache {

struct TopFile {
  char path[256];
  uint64_t reads, hits, device_bytes;
};
inline constexpr unsigned kTopFiles = 10;

// A snapshot; the engine fills it (core/engine.cc), stats.cc prints it.
struct Snapshot {
  Counters counters;  // summed over threads
  uint64_t live_folios;
  uint64_t live_by_order[kOrders];
  uint64_t kernel_files[static_cast<size_t>(Reason::kCount)];
  uint64_t memory_limit, memory_used, memory_metadata, memory_huge;
  uint64_t memory_given_back;  // under pressure, ever
  double memory_pressed;       // seconds with less than was asked for
  const char* io;              // "uring", "threads", "off"
  const char* io_why;  // why not uring: "io_uring: EPERM (seccomp?)", or ""
  unsigned top_count;
  TopFile top[kTopFiles];
  double seconds;  // since start
  int pid;
  char program[64];
};

namespace stats {

// Text lines into `out`, at most kMaxTextLines; returns the length.
inline constexpr unsigned kMaxTextLines = 15;
size_t format_text(const Snapshot& s, const Config& config, Text& out);
size_t format_json(const Snapshot& s, const Config& config, Text& out);
// Bytes that are enough for either.
size_t room_for(const Config& config);

// "%p" the pid, "%c" the program (its '/' as '_'), "%%" a percent sign; other
// characters behind a '%' stay as they are.
void expand_path(const char* pattern, const Snapshot& s, Text& out);

// Whether there is anything to tell: a file was adopted, or a read of a cached
// file was seen.
[[nodiscard]] bool worth_writing(const Snapshot& s);

// Writes to where config.stats says (path expanded; O_NOFOLLOW|O_CREAT, 0600
// on creation, only a regular file that is ours and has no other name). Raw
// system calls, no allocation but one mmap. Writes nothing when there is
// nothing worth writing.
void write(const Snapshot& s, const Config& config);

}  // namespace stats
}  // namespace racache
