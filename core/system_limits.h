// SPDX-License-Identifier: MIT
// How much memory this process may use: RAM, and the limits of the control
// groups (v1 and v2) that it is in, their parents' included.
//
// The parsers take text and believe nothing of it: any bytes give an answer.
// Reading uses raw system calls and one temporary mapping, no allocation.
#pragma once

#include <string_view>

#include "core/base.h"
#include "core/text.h"

namespace racache::limits {

inline constexpr uint64_t kUnlimited = ~uint64_t{0};

// A decimal number with white space around it. False, and `out` untouched, on
// anything else, overflow included. For sysfs and cgroup files.
[[nodiscard]] bool parse_number(std::string_view text, uint64_t& out);

// The number that a file of sysfs or /proc/sys holds; false when it cannot be
// read. `path` ends with a 0.
[[nodiscard]] bool read_number(const char* path, uint64_t& out);

// memory.max, memory.high, memory.limit_in_bytes: bytes, or kUnlimited for
// "max", for v1's huge "no limit" numbers and for what is not understood.
[[nodiscard]] uint64_t parse_limit(std::string_view text);

// The word in brackets of "always [madvise] never"; empty when there is none.
[[nodiscard]] std::string_view chosen_word(std::string_view text);

// The two lines of /proc/self/cgroup that matter; views into it, empty when
// absent. Paths begin with '/'.
struct Membership {
  std::string_view v1_memory;  // the hierarchy with the memory controller
  std::string_view v2;
};
[[nodiscard]] Membership parse_membership(std::string_view proc_cgroup);

// Where a hierarchy is mounted, from /proc/self/mountinfo; views into it, with
// \040 and the like still escaped.
struct Mount {
  std::string_view root;   // the hierarchy's directory that is mounted
  std::string_view point;  // where; empty: not mounted
};
struct Mounts {
  Mount v1_memory, v2;
};
[[nodiscard]] Mounts parse_mounts(std::string_view mountinfo);

// The directory of `path` under `mount`: mount point + (path - root). Where
// the path lies outside of what is mounted (another cgroup namespace), the
// mount point itself. Also says how long the mount point is: walking up to
// parents ends there.
size_t group_directory(const Mount& mount, std::string_view path, Text& out);

// The number behind `name` in "name number" or "name: number kB" lines, as of
// /proc/meminfo and memory.stat, in the file's unit. False: it is not there.
[[nodiscard]] bool parse_field(std::string_view text, std::string_view name,
                               uint64_t& out);

// What can still be had of `total` bytes of which `available` are: some, a 16th
// but at least 16 MiB and at most 1 GiB, is to be left. Negative: so much less.
[[nodiscard]] int64_t slack_of(uint64_t total, uint64_t available);

struct Memory {
  uint64_t ram;     // bytes
  uint64_t cgroup;  // the tightest limit of all groups, or kUnlimited
  int64_t slack;    // slack_of() the tightest of RAM and groups; INT64_MAX when
                    // nothing is known. Cached files of the kernel's count as
                    // available.
  uint64_t usable() const { return ram < cgroup ? ram : cgroup; }
};
// `root` is put in front of /proc and /sys (tests); "" otherwise.
[[nodiscard]] Memory read_memory(const char* root = "");

}  // namespace racache::limits
