// SPDX-License-Identifier: MIT
#include "core/eligible.h"

#include <cstring>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "core/sys.h"
#include "core/system_limits.h"
#include "core/text.h"

namespace racache::eligible {
namespace {

// Values that <linux/magic.h> lacks or keeps elsewhere.
constexpr unsigned long kFuse = 0x65735546, kCifs = 0xff534d42,
                        kSmb2 = 0xfe534d42, kCeph = 0x00c36400,
                        k9p = 0x01021997, kZfs = 0x2fc12fc1,
                        kVboxsf = 0x786f4256, kLustre = 0x0bd00bd0;

// Never cached: content made at each read, or changed from elsewhere without
// this kernel's knowledge.
constexpr unsigned long kNever[] = {
    PROC_SUPER_MAGIC,   SYSFS_MAGIC,        DEBUGFS_MAGIC, TRACEFS_MAGIC,
    CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, DEVPTS_SUPER_MAGIC,
    SECURITYFS_MAGIC,   PSTOREFS_MAGIC,     EFIVARFS_MAGIC, BPF_FS_MAGIC,
    BINFMTFS_MAGIC,     SELINUX_MAGIC,      SOCKFS_MAGIC,   PIPEFS_MAGIC,
    ANON_INODE_FS_MAGIC, NSFS_MAGIC};
// Only under RACACHE_COHERENCE=trust and when RACACHE_INCLUDE names the file.
constexpr unsigned long kRemote[] = {
    NFS_SUPER_MAGIC, SMB_SUPER_MAGIC,  kFuse, kCifs,   kSmb2,  kCeph, k9p,
    kVboxsf,         AFS_SUPER_MAGIC,  CODA_SUPER_MAGIC, kLustre, kZfs};
// Already in memory: only when RACACHE_INCLUDE names the file.
constexpr unsigned long kMemory[] = {TMPFS_MAGIC, RAMFS_MAGIC,
                                     HUGETLBFS_MAGIC};

template <size_t N>
bool among(unsigned long magic, const unsigned long (&list)[N]) {
  for (unsigned long entry : list) {
    if (magic == entry) return true;
  }
  return false;
}

bool file_system_allowed(const Config& config, int fd, bool named) {
  struct statfs s;
  if (sys::failed(sys::invoke(SYS_fstatfs, fd, &s))) return false;
  const unsigned long magic = static_cast<unsigned long>(s.f_type) &
                              0xffffffffu;
  if (among(magic, kNever)) return false;
  if (among(magic, kRemote)) {
    return named && config.coherence == Coherence::kTrust;
  }
  return named || !among(magic, kMemory);
}

// The path by which the file is known now; empty without /proc.
size_t path_of(int fd, char* out, size_t room) {
  TextBuffer<48> link;
  link << "/proc/self/fd/" << fd;
  const long n = sys::invoke(SYS_readlinkat, AT_FDCWD, link.c_str(), out,
                             room - 1);
  const size_t length = sys::failed(n) ? 0 : static_cast<size_t>(n);
  out[length] = 0;
  return length;
}

void keep_end(char (&to)[200], const char* path, size_t length) {
  const size_t keep = length < sizeof to ? length : sizeof to - 1;
  std::memcpy(to, path + length - keep, keep);
  to[keep] = 0;
}

Reason judge_name(const Config& config, int fd, Candidate* out) {
  char path[1024];
  const size_t length = path_of(fd, path, sizeof path);
  keep_end(out->path, path, length);
  const PathVerdict verdict = judge_path(config, path);
  out->named = verdict == PathVerdict::kNamed;
  return verdict == PathVerdict::kExcluded ? Reason::kExcluded : Reason::kNone;
}

// A number from a sysfs attribute of the device, or `fallback`.
uint64_t attribute(uint64_t device, const char* directory, const char* name,
                   uint64_t fallback) {
  TextBuffer<128> path;
  path << "/sys/dev/block/" << uint64_t{major(device)} << ':'
       << uint64_t{minor(device)} << directory << name;
  uint64_t value;
  return limits::read_number(path.c_str(), value) ? value : fallback;
}

// A partition has its queue in the directory of the whole disk.
uint64_t queue_attribute(uint64_t device, const char* name,
                         uint64_t fallback) {
  const uint64_t own = attribute(device, "/queue/", name, ~uint64_t{0});
  if (own != ~uint64_t{0}) return own;
  return attribute(device, "/../queue/", name, fallback);
}

uint32_t to_pages(uint64_t kib) {
  const uint64_t pages = kib / 4;
  return pages > (1u << 20) ? 1u << 20 : static_cast<uint32_t>(pages);
}

// A program that set O_DIRECT later on (through this number or another of the
// same description) wants the kernel's rules for alignment.
bool read_through_cache(int fd) {
  const long flags = sys::invoke(SYS_fcntl, fd, F_GETFL);
  return !sys::failed(flags) && (flags & (O_DIRECT | O_PATH)) == 0;
}

Reason look(const Config& config, int fd, struct stat* s) {
  if (sys::failed(sys::status_of(fd, s)) || !S_ISREG(s->st_mode)) return Reason::kFileSystem;
  if (s->st_size <= 0 ||
      static_cast<uint64_t>(s->st_size) < config.min_file) {
    return Reason::kSmall;
  }
  return Reason::kNone;
}

}  // namespace

Reason glance(const Config& config, int fd) {
  struct stat s;
  return look(config, fd, &s);
}

Reason judge(const Config& config, int fd, Candidate* out) {
  struct stat s;
  const Reason first = look(config, fd, &s);
  if (first != Reason::kNone) return first;
  if (!read_through_cache(fd)) return Reason::kOwnDirect;
  out->device = s.st_dev;
  out->inode = s.st_ino;
  out->size = static_cast<uint64_t>(s.st_size);
  const Reason reason = judge_name(config, fd, out);
  if (reason != Reason::kNone) return reason;
  return file_system_allowed(config, fd, out->named) ? Reason::kNone
                                                     : Reason::kFileSystem;
}

Device device_limits(const Config& config, uint64_t device) {
  constexpr uint64_t kReadAheadKb = 128, kIoKb = 512;
  Device limits;
  limits.ra_pages = to_pages(
      config.read_ahead_kb >= 0
          ? static_cast<uint64_t>(config.read_ahead_kb)
          : queue_attribute(device, "read_ahead_kb", kReadAheadKb));
  limits.io_pages = to_pages(
      config.io_kb >= 0 ? static_cast<uint64_t>(config.io_kb)
                        : queue_attribute(device, "max_sectors_kb", kIoKb));
  return limits;
}

}  // namespace racache::eligible
