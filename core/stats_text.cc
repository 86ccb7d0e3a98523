// SPDX-License-Identifier: MIT
// The statistics as text: for the operator of a database, who wants to know
// what was served, what it cost, and what was left to the kernel and why.
#include "core/stats.h"

namespace racache::stats {
namespace {

constexpr size_t kColumn = 24;  // where the values begin
constexpr unsigned kReasons = static_cast<unsigned>(Reason::kCount);
constexpr unsigned kShownReasons = 4;
constexpr unsigned kShownFiles = 3;
constexpr size_t kShownPath = 100;

Text& begin(Text& out, const char* label) {
  out << "racache: " << label;
  return out.pad_to(kColumn);
}

// "97.3%", or "none" of nothing. Counters of running threads are read one
// after the other, so a part may exceed its whole by a little.
Text& percent(Text& out, uint64_t part, uint64_t whole) {
  if (whole == 0) return out << "none";
  if (part > whole) part = whole;
  out.fixed(100.0 * static_cast<double>(part) / static_cast<double>(whole), 1);
  return out << '%';
}

Text& count(Text& out, uint64_t n, const char* one, const char* many) {
  return out << n << ' ' << (n == 1 ? one : many);
}

Text& duration(Text& out, double seconds) {
  if (seconds >= 1) return out.fixed(seconds, 2) << " s";
  if (seconds >= 1e-3) return out.fixed(seconds * 1e3, 1) << " ms";
  return out.fixed(seconds * 1e6, 0) << " us";
}

void served_lines(const Snapshot& s, Text& out) {
  const Counters& c = s.counters;
  begin(out, "program").printable(s.program, sizeof s.program - 1);
  out << ", pid " << s.pid << ", ";
  out.fixed(s.seconds, 2) << " s\n";
  begin(out, "served").human_bytes(c.read_bytes) << " in ";
  count(out, c.read_calls, "read", "reads") << ", hits ";
  percent(out, c.hits, c.hits + c.misses)
      << ", without a system call " << c.syscalls_avoided << '\n';
}

void device_lines(const Snapshot& s, Text& out) {
  const Counters& c = s.counters;
  begin(out, "device").human_bytes(c.device_bytes) << " in ";
  count(out, c.device_requests, "request", "requests") << ", used ";
  percent(out, c.used_bytes, c.device_bytes)
      << "; from the kernel's page cache ";
  out.human_bytes(c.from_page_cache_bytes) << '\n';
  begin(out, "readahead") << c.sync_windows << " sync, " << c.async_windows
                          << " async, " << c.forced << " forced, "
                          << c.standalone << " standalone; marks met "
                          << c.marks_hit << ", trims avoided "
                          << c.trims_avoided << ", overlaps skipped "
                          << c.overlap_skips << '\n';
}

// "4K" to "2M".
Text& folio_size(Text& out, unsigned order) {
  const size_t kib = (kPageSize << order) >> 10;
  return kib < 1024 ? out << kib << 'K' : out << (kib >> 10) << 'M';
}

void folio_lines(const Snapshot& s, Text& out) {
  const Counters& c = s.counters;
  begin(out, "folios") << s.live_folios << " live, " << c.evicted
                       << " evicted, " << c.order_fallbacks
                       << " smaller than planned\n";
  begin(out, "folio sizes");
  bool any = false;
  for (unsigned order = 0; order < kOrders; ++order) {
    if (c.inserted_by_order[order] == 0) continue;
    if (any) out << ", ";
    folio_size(out, order) << ": " << c.inserted_by_order[order];
    any = true;
  }
  out << (any ? "\n" : "none\n");
}

void wait_line(const Snapshot& s, Text& out) {
  const Counters& c = s.counters;
  const double seconds = static_cast<double>(c.wait_ns) / 1e9;
  begin(out, "waits") << c.wait_count << ", ";
  duration(out, seconds) << " in all, mean ";
  duration(out,
           c.wait_count == 0 ? 0 : seconds / static_cast<double>(c.wait_count))
      << '\n';
}

// The reason with the most files among those not shown yet.
unsigned next_reason(const Snapshot& s, uint32_t shown) {
  unsigned best = 0;
  for (unsigned i = 1; i < kReasons; ++i) {
    if ((shown & (1u << i)) != 0 || s.kernel_files[i] == 0) continue;
    if (best == 0 || s.kernel_files[i] > s.kernel_files[best]) best = i;
  }
  return best;
}
static_assert(kReasons <= 32);

void kernel_line(const Snapshot& s, Text& out) {
  begin(out, "the kernel's");
  uint32_t shown = 0;
  for (unsigned n = 0; n < kShownReasons; ++n) {
    const unsigned reason = next_reason(s, shown);
    if (reason == 0) break;
    if (n > 0) out << "; ";
    out << s.kernel_files[reason] << ' '
        << reason_text(static_cast<Reason>(reason));
    shown |= 1u << reason;
  }
  uint64_t rest = 0;
  for (unsigned i = 1; i < kReasons; ++i) {
    if ((shown & (1u << i)) == 0) rest += s.kernel_files[i];
  }
  if (rest != 0) out << "; " << rest << " for other reasons";
  out << (shown == 0 ? "no file\n" : "\n");
}

void file_lines(const Snapshot& s, Text& out) {
  const Counters& c = s.counters;
  begin(out, "files") << c.adopted << " adopted, " << c.lease_breaks
                      << " given back to a writer; ";
  count(out, c.kernel_fallbacks, "request", "requests")
      << " finished by the kernel\n";
  kernel_line(s, out);
}

void memory_line(const Snapshot& s, Text& out) {
  begin(out, "memory").human_bytes(s.memory_used) << " of ";
  out.human_bytes(s.memory_limit) << ", in huge pages ";
  out.human_bytes(s.memory_huge) << "; metadata ";
  out.human_bytes(s.memory_metadata);
  if (s.memory_given_back != 0) {
    out << "; given back ";
    out.human_bytes(s.memory_given_back);
  }
  out << '\n';
}

void io_line(const Snapshot& s, Text& out) {
  begin(out, "io") << (s.io == nullptr ? "off" : s.io);
  if (s.io_why != nullptr && s.io_why[0] != 0) out << " (" << s.io_why << ')';
  out << '\n';
}

// Only when there is something wrong: a cache that ever served other bytes
// than the kernel would have.
void verify_line(const Snapshot& s, Text& out) {
  if (s.counters.verify_failures == 0) return;
  begin(out, "VERIFY") << s.counters.verify_failures << " of "
                       << s.counters.verified
                       << " compared reads differed from the kernel's\n";
}

void top_lines(const Snapshot& s, Text& out) {
  for (unsigned i = 0; i < s.top_count && i < kShownFiles; ++i) {
    const TopFile& file = s.top[i];
    begin(out, i == 0 ? "busiest files" : "") << file.reads << " reads, hits ";
    percent(out, file.hits, file.reads) << ", device ";
    out.human_bytes(file.device_bytes) << "  ";
    out.printable(file.path, kShownPath) << '\n';
  }
}

}  // namespace

size_t format_text(const Snapshot& s, const Config&, Text& out) {
  served_lines(s, out);
  device_lines(s, out);
  folio_lines(s, out);
  wait_line(s, out);
  file_lines(s, out);
  memory_line(s, out);
  io_line(s, out);
  verify_line(s, out);
  top_lines(s, out);
  return out.size();
}

}  // namespace racache::stats
