// SPDX-License-Identifier: MIT
// Above, parsers of strings; below, the few functions that read files. Only one
// hierarchy can have the memory controller, so only that one is looked at: at
// its usual place first, and through the mount table when it is not there.
#include "core/system_limits.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>
#include <cstdint>

#include "core/sys.h"

namespace racache::limits {
namespace {

constexpr std::string_view kStandardV2 = "/sys/fs/cgroup";
constexpr std::string_view kStandardV1 = "/sys/fs/cgroup/memory";
constexpr unsigned kMaxDepth = 64;  // parents looked at

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::string_view trim(std::string_view s) {
  while (!s.empty() && is_space(s.front())) s.remove_prefix(1);
  while (!s.empty() && is_space(s.back())) s.remove_suffix(1);
  return s;
}

// Takes what stands before the next `separator` off the front of `s`.
std::string_view take(std::string_view& s, char separator) {
  size_t n = 0;
  while (n < s.size() && s[n] != separator) ++n;
  const std::string_view first(s.data(), n);
  s.remove_prefix(n < s.size() ? n + 1 : n);
  return first;
}

bool list_has(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    if (take(list, ',') == word) return true;
  }
  return false;
}

bool octal(char c) { return c >= '0' && c <= '7'; }

// mountinfo writes space, tab, newline and backslash as \ and three digits.
void append_unescaped(std::string_view s, Text& out) {
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] == '\\' && i + 3 < s.size() && octal(s[i + 1]) &&
        octal(s[i + 2]) && octal(s[i + 3])) {
      out << static_cast<char>((s[i + 1] - '0') * 64 + (s[i + 2] - '0') * 8 +
                               (s[i + 3] - '0'));
      i += 3;
    } else {
      out << s[i];
    }
  }
}

bool has_parent_step(std::string_view path) {
  while (!path.empty()) {
    if (take(path, '/') == "..") return true;
  }
  return false;
}

// One line: id parent dev ROOT POINT options [optional...] - TYPE source
// SUPEROPTIONS. A v1 hierarchy names its controllers in the last.
void parse_mount_line(std::string_view line, Mounts& mounts) {
  Mount mount;
  for (int i = 0; i < 3; ++i) take(line, ' ');
  mount.root = take(line, ' ');
  mount.point = take(line, ' ');
  while (!line.empty() && take(line, ' ') != "-") {
  }
  const std::string_view type = take(line, ' ');
  take(line, ' ');
  if (mount.root.empty() || mount.point.empty()) return;
  // The first mount wins: later ones are bind mounts into containers.
  if (type == "cgroup2" && mounts.v2.point.empty()) mounts.v2 = mount;
  if (type == "cgroup" && mounts.v1_memory.point.empty() &&
      list_has(line, "memory")) {
    mounts.v1_memory = mount;
  }
}

}  // namespace

bool parse_number(std::string_view text, uint64_t& out) {
  return parse_decimal(trim(text), out);
}

bool read_number(const char* path, uint64_t& out) {
  const long fd = sys::invoke(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
  if (sys::failed(fd)) return false;
  char text[32];
  const long n = sys::invoke(SYS_read, fd, text, sizeof text);
  sys::invoke(SYS_close, fd);
  return !sys::failed(n) && parse_number({text, static_cast<size_t>(n)}, out);
}

uint64_t parse_limit(std::string_view text) {
  uint64_t n;
  if (!parse_number(text, n)) return kUnlimited;
  // v1 says "none" with the largest multiple of a page in a long.
  return n >= (uint64_t{1} << 62) ? kUnlimited : n;
}

std::string_view chosen_word(std::string_view text) {
  take(text, '[');
  size_t n = 0;
  while (n < text.size() && text[n] != ']') ++n;
  return n < text.size() ? std::string_view(text.data(), n)
                         : std::string_view();
}

bool parse_field(std::string_view text, std::string_view name, uint64_t& out) {
  while (!text.empty()) {
    std::string_view line = take(text, '\n');
    std::string_view word = take(line, ' ');
    if (!word.empty() && word.back() == ':') word.remove_suffix(1);
    if (word != name) continue;
    line = trim(line);
    return parse_number(take(line, ' '), out);
  }
  return false;
}

int64_t slack_of(uint64_t total, uint64_t available) {
  constexpr uint64_t kLeast = 16 << 20;
  constexpr uint64_t kMost = 1 << 30;
  uint64_t reserve = total / 16;
  if (reserve < kLeast) reserve = kLeast;
  if (reserve > kMost) reserve = kMost;
  const uint64_t capped = available < total ? available : total;
  if (capped >= uint64_t{INT64_MAX}) return INT64_MAX;
  return static_cast<int64_t>(capped) - static_cast<int64_t>(reserve);
}

Membership parse_membership(std::string_view proc_cgroup) {
  Membership found;
  while (!proc_cgroup.empty()) {
    std::string_view path = take(proc_cgroup, '\n');
    const std::string_view id = take(path, ':');
    const std::string_view controllers = take(path, ':');
    if (path.empty() || path[0] != '/') continue;
    if (id == "0" && controllers.empty()) found.v2 = path;
    if (list_has(controllers, "memory")) found.v1_memory = path;
  }
  return found;
}

Mounts parse_mounts(std::string_view mountinfo) {
  Mounts mounts;
  while (!mountinfo.empty()) {
    parse_mount_line(take(mountinfo, '\n'), mounts);
  }
  return mounts;
}

size_t group_directory(const Mount& mount, std::string_view path, Text& out) {
  append_unescaped(mount.point, out);
  const size_t point_end = out.size();
  std::string_view root = mount.root;
  if (root == "/") root = {};
  // The root must be a whole prefix of the path's components.
  const bool below = path.size() >= root.size() &&
                     std::string_view(path.data(), root.size()) == root &&
                     (path.size() == root.size() || path[root.size()] == '/');
  if (!below || has_parent_step(path)) return point_end;
  path.remove_prefix(root.size());
  if (path != "/") out.append(path.data(), path.size());
  return point_end;
}

namespace {

// Room for the files read here. /proc/self/mountinfo is cut at its size: the
// control groups are among the first mounts.
struct Scratch {
  char file[256 << 10];
  char path[16 << 10];
};

class ScratchMapping {
 public:
  ScratchMapping()
      : address_(
            sys::invoke(SYS_mmap, 0L, sizeof(Scratch), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L)) {}
  ~ScratchMapping() {
    if (valid()) sys::invoke(SYS_munmap, address_, sizeof(Scratch));
  }
  ScratchMapping(const ScratchMapping&) = delete;
  ScratchMapping& operator=(const ScratchMapping&) = delete;
  bool valid() const { return !sys::failed(address_); }
  Scratch& operator*() const { return *reinterpret_cast<Scratch*>(address_); }

 private:
  long address_;
};

// As much of the file as there is room for; empty when it cannot be read.
std::string_view read_file(const char* path, char* buffer, size_t room) {
  const long fd = sys::invoke(SYS_openat, AT_FDCWD, path,
                              O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (sys::failed(fd)) return {};
  size_t size = 0;
  while (size < room) {
    const long n = sys::invoke(SYS_read, fd, buffer + size, room - size);
    if (n <= 0) break;
    size += static_cast<size_t>(n);
  }
  sys::invoke(SYS_close, fd);
  return {buffer, size};
}

class GroupReader {
 public:
  GroupReader(Scratch& scratch, const char* root)
      : scratch_(scratch), root_(root) {}

  // Lowers `memory` to what the groups allow.
  void tighten(Memory& memory) {
    const std::string_view text = read("/proc/self/cgroup");
    // Kept at the end of the path buffer: reading limits uses the file's.
    const Membership raw = parse_membership(text);
    const Membership mine{keep(raw.v1_memory), keep(raw.v2)};
    // The memory controller belongs to one hierarchy: v2's if not to v1's.
    const bool v2 = mine.v1_memory.empty();
    const std::string_view path = v2 ? mine.v2 : mine.v1_memory;
    if (path.empty()) return;
    if (!walk({"/", v2 ? kStandardV2 : kStandardV1}, path, v2, memory)) {
      walk_where_mounted(path, v2, memory);
    }
  }

  // What there is of RAM.
  void look_at_ram(Memory& memory) {
    uint64_t kib;
    if (!parse_field(read("/proc/meminfo"), "MemAvailable", kib)) return;
    if (kib > memory.ram >> 10) kib = memory.ram >> 10;
    memory.slack = slack_of(memory.ram, kib << 10);
  }

 private:
  std::string_view read(std::string_view path) {
    Text name(scratch_.path, kPathRoom);
    name << root_;
    name.append(path.data(), path.size());
    return read_file(name.c_str(), scratch_.file, sizeof scratch_.file);
  }

  std::string_view keep(std::string_view s) {
    if (s.size() > kPathRoom / 2 || kept_ + s.size() > kKeepRoom) return {};
    char* to = scratch_.path + kPathRoom + kept_;
    for (size_t i = 0; i < s.size(); ++i) to[i] = s[i];
    kept_ += s.size();
    return {to, s.size()};
  }

  // Not in the usual place: where the mount table says. It can be long, so it
  // is read only now.
  void walk_where_mounted(std::string_view path, bool v2, Memory& memory) {
    const Mounts mounts = parse_mounts(read("/proc/self/mountinfo"));
    const Mount& raw = v2 ? mounts.v2 : mounts.v1_memory;
    const Mount mount{keep(raw.root), keep(raw.point)};
    if (!mount.point.empty()) walk(mount, path, v2, memory);
  }

  // The group and its parents, from the group up to the mount point. True when
  // the group's directory is there.
  bool walk(const Mount& mount, std::string_view path, bool v2,
            Memory& memory) {
    Text directory(scratch_.path, kPathRoom);
    directory << root_;
    const size_t top = group_directory(mount, path, directory);
    if (directory.size() + kNameRoom > kPathRoom) return false;
    size_t end = directory.size();
    const bool found = exists(end, "/cgroup.procs");
    for (unsigned depth = 0; depth < kMaxDepth; ++depth) {
      lower(end, v2, memory);
      if (end <= top) break;
      while (end > top && scratch_.path[end - 1] != '/') --end;
      if (end > top) --end;
    }
    return found;
  }

  void lower(size_t end, bool v2, Memory& memory) {
    uint64_t limit = kUnlimited;
    if (v2) {
      lower_to(end, "/memory.max", limit);
      // memory.high does not kill, but a process above it hardly runs.
      lower_to(end, "/memory.high", limit);
    } else {
      lower_to(end, "/memory.limit_in_bytes", limit);
    }
    if (limit < memory.cgroup) memory.cgroup = limit;
    // A limit above all RAM is none.
    if (limit < memory.ram) take_slack(end, v2, limit, memory);
  }

  void take_slack(size_t end, bool v2, uint64_t limit, Memory& memory) {
    uint64_t used;
    const char* usage = v2 ? "/memory.current" : "/memory.usage_in_bytes";
    if (!parse_number(read_in(end, usage), used)) return;
    const uint64_t cached = reclaimable(read_in(end, "/memory.stat"), v2);
    const uint64_t firm = used > cached ? used - cached : 0;
    const int64_t slack = slack_of(limit, limit > firm ? limit - firm : 0);
    if (slack < memory.slack) memory.slack = slack;
  }

  // Files that the kernel would sooner drop than let a process die; of those in
  // active use it keeps some.
  static uint64_t reclaimable(std::string_view stat, bool v2) {
    uint64_t inactive = 0;
    uint64_t active = 0;
    (void)parse_field(stat, v2 ? "inactive_file" : "total_inactive_file",
                      inactive);
    (void)parse_field(stat, v2 ? "active_file" : "total_active_file", active);
    return inactive / 2 + active / 4 > kUnlimited / 4 ? 0
                                                      : inactive + active / 2;
  }

  void lower_to(size_t end, const char* file, uint64_t& limit) {
    const uint64_t value = parse_limit(read_in(end, file));
    if (value < limit) limit = value;
  }

  std::string_view read_in(size_t end, const char* file) {
    return read_file(name_in(end, file), scratch_.file, sizeof scratch_.file);
  }

  bool exists(size_t end, const char* file) {
    const long result =
        sys::invoke(SYS_faccessat, AT_FDCWD, name_in(end, file), F_OK);
    return !sys::failed(result);
  }

  // The first `end` bytes of the path buffer are a directory: a file in it.
  const char* name_in(size_t end, const char* file) {
    Text name(scratch_.path + end, kPathRoom - end);
    name << file;
    return scratch_.path;
  }

  static constexpr size_t kPathRoom = 8 << 10;
  static constexpr size_t kKeepRoom = sizeof(Scratch::path) - kPathRoom;
  static constexpr size_t kNameRoom = 64;
  Scratch& scratch_;
  const char* root_;
  size_t kept_ = 0;
};

constexpr uint64_t kUnknownRam = uint64_t{1} << 30;  // modest on any machine

uint64_t ram_bytes() {
  struct sysinfo info;
  if (sys::failed(sys::invoke(SYS_sysinfo, &info))) return kUnknownRam;
  return static_cast<uint64_t>(info.totalram) * info.mem_unit;
}

}  // namespace

Memory read_memory(const char* root) {
  Memory memory{ram_bytes(), kUnlimited, INT64_MAX};
  const ScratchMapping scratch;
  if (!scratch.valid()) return memory;
  GroupReader reader(*scratch, root);
  reader.look_at_ram(memory);
  reader.tighten(memory);
  return memory;
}

}  // namespace racache::limits
