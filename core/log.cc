// SPDX-License-Identifier: MIT
// Three words of state: what descriptor 2 was at start, the level, and how many
// lines were written. No lock: a line is one system call, and two lines that
// come at once may come in either order.
#include "core/log.h"

#include <sys/stat.h>
#include <atomic>
#include <cstring>

#include "core/quiet_write.h"
#include "core/sys.h"

namespace racache::log {
namespace {

// Descriptor 2 as it was at start. Written by init(), before there are other
// threads of ours; read-only from then on.
struct OpenFileId {
  bool known;
  uint64_t device, inode;
};
constinit OpenFileId first_stderr{};

// Relaxed: neither the level nor the number of lines orders anything else.
constinit std::atomic<LogLevel> level_now{LogLevel::kWarn};
constinit std::atomic<unsigned> lines{0};

OpenFileId identify(int fd) {
  struct stat st;  // the kernel's own layout on x86-64 and aarch64
  if (sys::failed(sys::invoke(SYS_fstat, fd, &st))) return {};
  return {true, st.st_dev, st.st_ino};
}

// iovec's pointer is not const, though writev(2) only reads.
iovec piece(const char* s, size_t n) { return {const_cast<char*>(s), n}; }

}  // namespace

void init(LogLevel level) {
  set_level(level);
  lines.store(0, std::memory_order_relaxed);
  first_stderr = identify(2);
}

void set_level(LogLevel level) {
  level_now.store(level, std::memory_order_relaxed);
}

bool enabled(LogLevel level) {
  return level <= level_now.load(std::memory_order_relaxed);
}

bool stderr_is_ours() {
  if (!first_stderr.known) return false;
  const OpenFileId now = identify(2);
  return now.known && now.device == first_stderr.device &&
         now.inode == first_stderr.inode;
}

void line(LogLevel level, const Text& text) {
  if (!enabled(level) || !stderr_is_ours()) return;
  // Loaded first, so that a busy failure cannot make the count wrap around.
  if (lines.load(std::memory_order_relaxed) >= kMaxLines) return;
  const unsigned number = lines.fetch_add(1, std::memory_order_relaxed);
  if (number >= kMaxLines) return;
  static constexpr char kPrefix[] = "racache: ";
  static constexpr char kLast[] = "more messages follow; they are not shown";
  const bool last = number == kMaxLines - 1;
  const iovec pieces[] = {
      piece(kPrefix, sizeof kPrefix - 1),
      last ? piece(kLast, sizeof kLast - 1) : piece(text.c_str(), text.size()),
      piece("\n", 1)};
  quiet_write(2, pieces, 3);
}

}  // namespace racache::log
