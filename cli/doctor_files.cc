// SPDX-License-Identifier: MIT
// The checks that need a file: the one asked about; or in a directory a
// temporary one and, where none can be made, one that is there already.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "cli/doctor.h"
#include "core/base.h"
#include "core/config.h"
#include "core/log.h"

#ifndef STATX_DIOALIGN
#error "racache: these kernel headers do not know STATX_DIOALIGN (Linux 6.1)"
#endif
#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

namespace racache::cli {
namespace {

namespace fs = std::filesystem;
constexpr size_t kFileSize = 64 << 10;

struct Sample {
  std::string path;
  bool named = false;  // the file that was asked about
  bool ours = false;   // made for this, to be removed
  int err = 0;         // why none could be made
  ~Sample() {
    if (ours) unlink(path.c_str());
  }
};

bool make_sample(const std::string& directory, Sample& sample) {
  std::string name = directory + "/.racache-doctor-XXXXXX";
  const int fd = mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) {
    sample.err = errno;
    return false;
  }
  sample.path = name;
  sample.ours = true;
  const std::string content(kFileSize, 'x');
  const bool written =
      write(fd, content.data(), kFileSize) == static_cast<ssize_t>(kFileSize) &&
      fsync(fd) == 0;
  if (!written) sample.err = errno;
  close(fd);  // a writer would stand in the lease's way
  return written;
}

bool find_sample(const std::string& directory, Sample& sample) {
  std::error_code error;
  for (fs::directory_iterator i(directory, error), end; !error && i != end;
       i.increment(error)) {
    struct stat st;
    const std::string path = i->path().string();
    if (lstat(path.c_str(), &st) != 0 || !S_ISREG(st.st_mode)) continue;
    if (st.st_size < static_cast<off_t>(kPageSize) ||
        access(path.c_str(), R_OK) != 0) {
      continue;
    }
    sample.path = path;
    if (st.st_uid == geteuid()) return true;  // else hope for a better one
  }
  return !sample.path.empty();
}

struct FileSystem {
  long magic;
  const char* name;
  Verdict verdict;
  const char* note;
};
constexpr const char* kNoLeases = "left to the kernel";
constexpr FileSystem kFileSystems[] = {
    {0xEF53, "ext4", Verdict::kOk, ""},
    {0x58465342, "xfs", Verdict::kOk, ""},
    {0x9123683E, "btrfs", Verdict::kOk, ""},
    {0x794c7630, "overlay", Verdict::kOk, ""},
    {0xF2F52010, "f2fs", Verdict::kOk, ""},
    {0x01021994, "tmpfs", Verdict::kWarn,
     "in memory already; cached only if RACACHE_INCLUDE names it"},
    {0x858458f6, "ramfs", Verdict::kWarn,
     "in memory already; cached only if RACACHE_INCLUDE names it"},
    {0x6969, "nfs", Verdict::kFail, kNoLeases},
    {static_cast<long>(0xFF534D42), "cifs", Verdict::kFail, kNoLeases},
    {static_cast<long>(0xFE534D42), "smb", Verdict::kFail, kNoLeases},
    {0x00c36400, "ceph", Verdict::kFail, kNoLeases},
    {0x01021997, "9p", Verdict::kFail, kNoLeases},
    {0x65735546, "fuse", Verdict::kFail, kNoLeases},
    {0x9fa0, "proc", Verdict::kFail, kNoLeases},
    {0x62656572, "sysfs", Verdict::kFail, kNoLeases},
};

Check check_file_system(const std::string& directory) {
  struct statfs st;
  if (statfs(directory.c_str(), &st) != 0) {
    return {Verdict::kFail, "file system",
            directory + ": " + error_text(errno)};
  }
  for (const FileSystem& f : kFileSystems) {
    if (f.magic != static_cast<long>(st.f_type)) continue;
    const std::string note = f.note[0] ? std::string(": ") + f.note : "";
    return {f.verdict, "file system", f.name + note + " (" + directory + ")"};
  }
  char magic[32];
  snprintf(magic, sizeof magic, "type 0x%lx", static_cast<long>(st.f_type));
  return {Verdict::kOk, "file system",
          std::string(magic) + " (" + directory + ")"};
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags)
      : fd_(open(path.c_str(), flags | O_CLOEXEC | O_NOCTTY)), err_(errno) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  bool valid() const { return fd_ >= 0; }
  int err() const { return err_; }
  operator int() const { return fd_; }

 private:
  int fd_;
  int err_;
};

std::string lease_advice(int err, const std::string& path) {
  if (err == EACCES) return "; only one's own files, or CAP_LEASE";
  if (err != EAGAIN) return "";
  std::string advice;
  for (const std::string& writer : writers_of(path)) {
    advice += (advice.empty() ? "; open for writing in " : ", ") + writer;
  }
  return advice.empty() ? "; someone has it open for writing" : advice;
}

Check check_lease(const Sample& sample) {
  const Descriptor fd(sample.path, O_RDONLY);
  if (!fd.valid()) {
    return {Verdict::kFail, "lease", sample.path + ": " + error_text(fd.err())};
  }
  if (fcntl(fd, F_SETLEASE, F_RDLCK) != 0) {
    const int err = errno;
    // On a file found by chance a writer or another owner says nothing of the
    // rest.
    const bool telling =
        sample.ours || sample.named || (err != EAGAIN && err != EACCES);
    return {telling ? Verdict::kFail : Verdict::kWarn, "lease",
            error_text(err) + " on " + sample.path +
                lease_advice(err, sample.path)};
  }
  fcntl(fd, F_SETLEASE, F_UNLCK);
  return {Verdict::kOk, "lease", "granted"};
}

std::string alignment(int fd, uint32_t& bytes) {
  struct statx st;
  memset(&st, 0, sizeof st);
  const long ret =
      syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &st);
  if (ret != 0 || (st.stx_mask & STATX_DIOALIGN) == 0) {
    return "alignment unknown, " + std::to_string(bytes) + " is used";
  }
  if (st.stx_dio_offset_align == 0) return "not supported, says statx";
  bytes = std::max(bytes, st.stx_dio_offset_align);
  return "alignment " + std::to_string(st.stx_dio_mem_align) + " (memory), " +
         std::to_string(st.stx_dio_offset_align) + " (offset)";
}

Check check_direct(const Sample& sample) {
  const Descriptor fd(sample.path, O_RDONLY | O_DIRECT);
  if (!fd.valid()) {
    return {Verdict::kFail, "O_DIRECT", "open: " + error_text(fd.err())};
  }
  uint32_t align = kPageSize;
  const std::string what = alignment(fd, align);
  if (align > (1 << 20)) return {Verdict::kFail, "O_DIRECT", what};
  const std::unique_ptr<void, decltype(&free)> memory(
      aligned_alloc(align, align), &free);
  if (!memory) return {Verdict::kFail, "O_DIRECT", "no memory to try it"};
  if (pread(fd, memory.get(), align, 0) < 0) {
    return {Verdict::kFail, "O_DIRECT", "read: " + error_text(errno)};
  }
  return {Verdict::kOk, "O_DIRECT", what};
}

Check check_cachestat(const Sample& sample) {
  const Descriptor fd(sample.path, O_RDONLY);
  struct {
    uint64_t offset, length;
  } range{0, kPageSize};
  uint64_t counts[5];
  if (syscall(SYS_cachestat, static_cast<int>(fd), &range, counts, 0) == 0) {
    return {Verdict::kOk, "cachestat", "available"};
  }
  return {Verdict::kWarn, "cachestat",
          error_text(errno) + "; preadv2(RWF_NOWAIT) is used instead"};
}

// A partition has no queue of its own: its disk, one level up, has.
std::string queue_value(dev_t device, const char* name) {
  const std::string base = "/sys/dev/block/" + std::to_string(major(device)) +
                           ":" + std::to_string(minor(device));
  const std::string own = first_line(base + "/queue/" + name);
  return own.empty() ? first_line(base + "/../queue/" + name) : own;
}

Check check_device(const std::string& directory) {
  struct stat st;
  if (stat(directory.c_str(), &st) != 0) {
    return {Verdict::kWarn, "device", error_text(errno)};
  }
  const std::string ahead = queue_value(st.st_dev, "read_ahead_kb");
  const std::string sectors = queue_value(st.st_dev, "max_sectors_kb");
  if (ahead.empty() || sectors.empty()) {
    return {Verdict::kOk, "device",
            "no block queue to be seen; built-in window and request sizes"};
  }
  return {Verdict::kOk, "device",
          "read_ahead_kb " + ahead + ", max_sectors_kb " + sectors};
}

// Smaller files are left to the kernel: RACACHE_MIN_FILE.
Check check_size(const std::string& path) {
  log::init(LogLevel::kError);
  Config config;
  load_config(config, environ);
  std::error_code error;
  const uint64_t size = fs::file_size(path, error);
  if (error) return {Verdict::kFail, "size", path + ": " + error.message()};
  const bool small = size < config.min_file;
  return {
      small ? Verdict::kWarn : Verdict::kOk, "size",
      std::to_string(size) + " bytes" +
          (small ? ": less than RACACHE_MIN_FILE, left to the kernel" : "")};
}

void check_sample(const Sample& sample, Checks& checks) {
  checks.push_back(check_lease(sample));
  checks.push_back(check_direct(sample));
  checks.push_back(check_cachestat(sample));
}

Checks check_file(const std::string& path) {
  Checks checks{check_file_system(path), check_size(path)};
  Sample sample;
  sample.path = path;
  sample.named = true;
  check_sample(sample, checks);
  checks.push_back(check_device(path));
  return checks;
}

Checks check_directory(const std::string& directory) {
  Checks checks{check_file_system(directory)};
  Sample sample;
  if (!make_sample(directory, sample) && !find_sample(directory, sample)) {
    checks.push_back({Verdict::kFail, "lease",
                      "no file to try it on in " + directory + ": " +
                          error_text(sample.err)});
    return checks;
  }
  check_sample(sample, checks);
  checks.push_back(check_device(directory));
  return checks;
}

}  // namespace

Checks check_path(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) return check_directory(path);
  if (fs::is_regular_file(status)) return check_file(path);
  return {{Verdict::kFail, "path",
           path + ": " +
               (error ? error.message() : "neither a file nor a directory")}};
}

}  // namespace racache::cli
