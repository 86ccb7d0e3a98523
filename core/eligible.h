// SPDX-License-Identifier: MIT
// Which files may be cached, as far as one can tell without starting an
// engine, and what is known of the device beneath.
#pragma once

#include "core/config.h"
#include "core/counters.h"

namespace racache::eligible {

struct Candidate {
  uint64_t device, inode, size;
  bool named;      // RACACHE_INCLUDE names it
  char path[200];  // its end, when it is longer
};
// The first thing that judge() does, for those who want to know before they
// make any arrangement: one fstat(2). kNone: ask judge().
[[nodiscard]] Reason glance(const Config& config, int fd);
// kNone: eligible, and `out` is filled. Async-signal-safe, no allocation.
[[nodiscard]] Reason judge(const Config& config, int fd, Candidate* out);

struct Device {
  uint32_t ra_pages;  // read_ahead_kb / 4
  uint32_t io_pages;  // max_sectors_kb / 4
};
// From RACACHE_READ_AHEAD_KB and RACACHE_IO_KB, else sysfs, else 128 KiB and
// 512 KiB.
[[nodiscard]] Device device_limits(const Config& config, uint64_t device);

}  // namespace racache::eligible
