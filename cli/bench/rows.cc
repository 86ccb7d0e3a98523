// SPDX-License-Identifier: MIT
// The table. Commands and loops are those that the patches name; where they
// leave something open (sizes of the reads of a warm file, db_bench's
// options), what is here was chosen.
#include "cli/bench/rows.h"

#include <cstring>

namespace racache::cli::bench {
namespace {

constexpr uint64_t kKiB = 1 << 10;
constexpr const char* kRandomRead =
    "--ioengine=psync --rw=randread --fadvise_hint=random --invalidate=1";

// One paragraph a row; see Row for the columns.
// clang-format off
constexpr Row kRows[] = {
    // Large folios for forced readahead.
    {"readahead-2m", "readahead(2) in 2 MiB steps, then read",
     "262,144 -> 512 folios",
     "s", Program::kOwn, "readahead", 1, 2 * kMiB, 0, 1, 1, 128, 1280,
     {{Need::kFoliosPer, 2 * kMiB}}, {}, nullptr},
    {"random-1m", "FADV_RANDOM, 1 MiB pread in order",
     "262,144 -> 1,024 folios",
     "s", Program::kOwn, "hinted_stream", 1, kMiB, 0, 1, 1, 128, 1280,
     {{Need::kFoliosPer, kMiB}}, {}, nullptr},
    {"random-256k", "2000 random 256 KiB pread, no advice",
     "105,996 -> 9,346 folios",
     "s", Program::kOwn, "random", 1, 256 * kKiB, 2000, 1, 1, 512, 1280,
     {{Need::kModelFolios, 0.03}}, {10715, 3889}, nullptr},
    {"willneed-8m", "madvise(WILLNEED) of 8 MiB, every page touched",
     "2,048 -> 4 folios",
     "s", Program::kOwn, "willneed", 1, 8 * kMiB, 0, 1, 1, 128, 1280,
     {{Need::kFolios, 4}}, {}, nullptr},
    {"sequential", "1 MiB reads, read_ahead 8192 KiB",
     "1,433 folios, unchanged",
     "s", Program::kOwn, "stream", 1, kMiB, 0, 1, 1, 8192, 1280,
     {{Need::kModelFolios, 0}}, {1433, 1049}, nullptr},
    {"fio-256k", "fio psync randread 256k, FADV_RANDOM", "2,142 -> 2,977 MB/s",
     "MB/s", Program::kFio, kRandomRead, 1, 256 * kKiB, 0, 1, 1, 128, 1280,
     {{Need::kRatio, 1.6}, {Need::kLessSystem, 0}}, {}, nullptr},
    {"fio-64k", "fio psync randread 64k, FADV_RANDOM", "1,051 -> 1,434 MB/s",
     "MB/s", Program::kFio, kRandomRead, 1, 64 * kKiB, 0, 1, 1, 128, 1280,
     {{Need::kRatio, 1.36}}, {}, nullptr},
    {"processes-4", "4 processes, one file, FADV_RANDOM, 64 KiB pread",
     "6.9 -> 1.1 s",
     "s", Program::kOwn, "processes", 4, 64 * kKiB, 0, 4, 1, 128, 1280,
     {{Need::kRatio, 0.7}}, {}, nullptr},
    {"random-4k", "20,000 random 4 KiB pread, FADV_RANDOM", "665 -> 580 ms",
     "s", Program::kOwn, "hinted_random", 1, 4 * kKiB, 20000, 1, 1, 128, 1280,
     {{Need::kRatio, 1.15}}, {}, nullptr},
    {"warm-random", "warm read, filled under FADV_RANDOM", "92.5 -> 77..80 ms",
     "s", Program::kOwn, "warm_random", 1, kMiB, 0, 1, 3, 128, 1280,
     {{Need::kRatio, 1.1}, {Need::kSameAsTheOther, 0.03}}, {}, "warm-stream"},
    {"warm-stream", "warm read, filled in order", "82.8 -> 77..80 ms",
     "s", Program::kOwn, "warm_stream", 1, kMiB, 0, 1, 3, 128, 1280,
     {{Need::kRatio, 1.1}}, {}, nullptr},
    // Half of the window at least.
    {"half-1m", "4 KiB, then 1 MiB reads, max_sectors 512",
     "3,329 -> 1,032 requests",
     "s", Program::kOwn, "stream_behind_page", 2, kMiB, 0, 1, 1, 128, 512,
     {{Need::kRequests, 1032}, {Need::kRatio, 1}}, {}, nullptr},
    {"half-512k", "4 KiB, then 512 KiB reads, max_sectors 256",
     "6,147 -> 2,056 requests",
     "s", Program::kOwn, "stream_behind_page", 2, 512 * kKiB, 0, 1, 1, 128, 256,
     {{Need::kRequests, 2056}}, {}, nullptr},
    {"half-3m", "4 KiB, then 3 MiB reads, max_sectors 1280",
     "271 -> 343 requests",
     "s", Program::kOwn, "stream_behind_page", 2, 3 * kMiB, 0, 1, 1, 128, 1280,
     {{Need::kFewerRequests, 0}, {Need::kRatio, 1}}, {}, nullptr},
    // No look-up beyond the last page.
    {"cached-4k", "fio sync read 4k of a cached file", "2,697 -> 2,709 MiB/s",
     "MiB/s", Program::kFio, "--ioengine=sync --rw=read --time_based", 1,
     4 * kKiB, 0, 1, 1, 128, 1280,
     {{Need::kRatio, 2.5}, {Need::kLookups, 1.01}}, {}, nullptr},
    {"cached-loop", "4 KiB read(), cached, without fio", "one look-up saved",
     "s", Program::kOwn, "cached", 1, 4 * kKiB, 0, 1, 4, 128, 1280,
     {{Need::kLookups, 1.01}}, {}, nullptr},
    // Covered requests cost nothing.
    {"threads-64k", "32 threads, readahead(2) + pread of 64 KiB",
     "1.2M -> 2.4M ops/s",
     "ops/s", Program::kOwn, "threads", 2, 64 * kKiB, 0, 32, 1, 128, 1280,
     {{Need::kDeviceBytes, 1.01}, {Need::kRatio, 1.3}}, {}, nullptr},
    {"threads-4k", "32 threads, readahead(2) + pread of 4 KiB",
     "1.2M -> 2.4M ops/s",
     "ops/s", Program::kOwn, "threads", 8, 4 * kKiB, 0, 32, 1, 128, 1280,
     {{Need::kDeviceBytes, 1.01}, {Need::kRatio, 3}}, {}, nullptr},
    {"db-readseq", "db_bench readseq, 32 threads, cold", "1.2M -> 2.4M ops/s",
     "ops/s", Program::kDbBench, "", 8, 0, 0, 32, 1, 128, 1280,
     {{Need::kRatio, 1.1}, {Need::kDeviceBytes, 1.01}}, {}, nullptr},
};
// clang-format on

}  // namespace

std::span<const Row> rows() { return kRows; }

const Row* find_row(const std::string& name) {
  for (const Row& row : kRows) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

uint64_t Row::requests(uint64_t size) const {
  if (count == 0) return block == 0 ? 0 : file_size(size) / block;
  const uint64_t scaled = count * (size / kMiB) / (kFullSize / kMiB);
  return scaled == 0 ? 1 : scaled;
}

double Measured::ratio(size_t other) const {
  if (other >= runs.size() || runs[0].samples.empty()) return 0;
  const double base = runs[0].figure().median;
  const double mine = runs[other].figure().median;
  if (base <= 0 || mine <= 0) return 0;
  return row->counts_seconds() ? base / mine : mine / base;
}

std::string times(double ratio) {
  return ratio > 0 ? format("%.2fx", ratio) : "-";
}

}  // namespace racache::cli::bench
