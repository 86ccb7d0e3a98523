// SPDX-License-Identifier: MIT
#include "core/huge_pages.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <cstring>
#include <string_view>

#include "core/sys.h"

namespace racache::huge_pages {
namespace {

// As in Documentation/admin-guide/mm/pagemap.rst; older headers lack them.
struct Region {
  uint64_t start, end, categories;
};
struct Scan {
  uint64_t size, flags, start, end, walk_end, regions, region_count, max_pages,
      category_inverted, category_mask, category_anyof_mask, return_mask;
};
constexpr unsigned long kPagemapScan = _IOWR('f', 16, Scan);
constexpr uint64_t kPresent = 1 << 3, kHuge = 1 << 6;

class ProcFile {
 public:
  explicit ProcFile(const char* path)
      : fd_(sys::invoke(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC)) {}
  ~ProcFile() {
    if (!sys::failed(fd_)) sys::invoke(SYS_close, fd_);
  }
  ProcFile(const ProcFile&) = delete;
  ProcFile& operator=(const ProcFile&) = delete;
  long fd() const { return fd_; }

 private:
  const long fd_;
};

bool hex_number(std::string_view& text, uint64_t& out) {
  size_t n = 0;
  for (out = 0; n < text.size(); ++n) {
    const char c = text[n];
    const bool digit = c >= '0' && c <= '9';
    if (!digit && (c < 'a' || c > 'f')) break;
    out = out * 16 + static_cast<uint64_t>(digit ? c - '0' : c - 'a' + 10);
  }
  text.remove_prefix(n);
  return n != 0;
}

// The lines of smaps: "start-end perms ..." begins a mapping, "Name: N kB" is
// one of its figures.
class SmapsReader {
 public:
  SmapsReader(uint64_t start, uint64_t end) : start_(start), end_(end) {}
  uint64_t found() const { return found_; }
  bool behind() const { return behind_; }

  void line(std::string_view text) {
    constexpr std::string_view kName = "AnonHugePages:";
    uint64_t from = 0, to = 0;
    std::string_view rest = text;
    if (hex_number(rest, from) && !rest.empty() && rest[0] == '-') {
      rest.remove_prefix(1);
      inside_ = hex_number(rest, to) && from < end_ && to > start_;
      behind_ = from >= end_;
    } else if (inside_ && text.substr(0, kName.size()) == kName) {
      found_ += kilobytes(text.substr(kName.size())) << 10;
    }
  }

 private:
  static uint64_t kilobytes(std::string_view text) {
    uint64_t n = 0;
    for (const char c : text) {
      if (c >= '0' && c <= '9') n = n * 10 + static_cast<uint64_t>(c - '0');
    }
    return n;
  }

  const uint64_t start_, end_;
  uint64_t found_ = 0;
  bool inside_ = false, behind_ = false;
};

}  // namespace

namespace detail {

bool by_scan(uint64_t start, uint64_t end, uint64_t& found) {
  const ProcFile pagemap("/proc/self/pagemap");
  if (sys::failed(pagemap.fd())) return false;
  Region regions[64];
  Scan scan{};
  scan.size = sizeof scan;
  scan.end = end;
  scan.regions = reinterpret_cast<uint64_t>(regions);
  scan.region_count = sizeof regions / sizeof regions[0];
  scan.category_mask = scan.return_mask = kPresent | kHuge;
  found = 0;
  for (uint64_t at = start; at < end; at = scan.walk_end) {
    scan.start = at;
    scan.walk_end = 0;
    const long n = sys::invoke(SYS_ioctl, pagemap.fd(), kPagemapScan, &scan);
    if (sys::failed(n) || scan.walk_end <= at) return false;
    for (long i = 0; i < n; ++i) found += regions[i].end - regions[i].start;
  }
  return true;
}

bool by_smaps(uint64_t start, uint64_t end, uint64_t& found) {
  const ProcFile smaps("/proc/self/smaps");
  if (sys::failed(smaps.fd())) return false;
  SmapsReader reader(start, end);
  char buffer[4096];
  size_t held = 0;
  while (!reader.behind()) {
    const long n =
        sys::invoke(SYS_read, smaps.fd(), buffer + held, sizeof buffer - held);
    if (sys::failed(n)) return false;
    if (n == 0) break;
    held += static_cast<size_t>(n);
    std::string_view text(buffer, held);
    for (size_t length; (length = text.find('\n')) != text.npos;) {
      reader.line(text.substr(0, length));
      text.remove_prefix(length + 1);
    }
    // A line longer than the buffer can only be a mapping's, by its path.
    held = text.size() < sizeof buffer ? text.size() : 0;
    std::memmove(buffer, text.data(), held);
  }
  found = reader.found();
  return true;
}

}  // namespace detail

uint64_t bytes_in(const void* start, size_t bytes) {
  const uint64_t from = reinterpret_cast<uint64_t>(start), to = from + bytes;
  uint64_t found = 0;
  if (detail::by_scan(from, to, found)) return found;
  return detail::by_smaps(from, to, found) ? found : 0;
}

}  // namespace racache::huge_pages
