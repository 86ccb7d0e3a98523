// SPDX-License-Identifier: MIT
// Writing statistics, at exit: the process may be in any state, so there are
// raw system calls only, no lock of ours, and nothing waits for long.
#include "core/stats.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <cerrno>
#include <cstring>

#include "core/log.h"
#include "core/mapped_buffer.h"
#include "core/quiet_write.h"
#include "core/sys.h"

namespace racache::stats {

// Every counter at its largest, and each string with every character escaped
// ("\u0001" is six).
size_t room_for(const Config& config) {
  const size_t strings = strlen(config.include) + strlen(config.exclude) +
                         strlen(config.programs) + strlen(config.stats_path) +
                         strlen(config.live_directory);
  return (64 << 10) + 6 * strings;
}

namespace {

constexpr size_t kMaxPath = 4096;

// Somebody else's file, or one that also has another name, may have been put
// there for us to overwrite.
long check_target(int fd) {
  struct stat st;
  const long err = sys::invoke(SYS_fstat, fd, &st);
  if (sys::failed(err)) return err;
  if (!S_ISREG(st.st_mode) || st.st_nlink != 1) return -EPERM;
  if (st.st_uid != static_cast<uid_t>(sys::invoke(SYS_geteuid))) return -EPERM;
  return 0;
}

// Processes that share one path take turns, so that the file is always one
// process's statistics, whole. But nobody's lock may hold up an exit: after a
// quarter of a second ours are not written (-EAGAIN).
long take_turn(int fd) {
  const timespec pause{0, 1000000};
  long err = 0;
  for (int attempt = 0; attempt < 250; ++attempt) {
    err = sys::invoke(SYS_flock, fd, LOCK_EX | LOCK_NB);
    if (err != -EAGAIN && err != -EINTR) break;
    sys::invoke(SYS_nanosleep, &pause, 0L);
  }
  // File systems without locks: then there is no turn to be had.
  return err == -EAGAIN ? err : 0;
}

// Away from 0, 1 and 2, where other threads may still write.
int open_target(const char* path) {
  // O_NONBLOCK: a FIFO without a reader must not hold up the exit.
  const long fd = sys::invoke(
      SYS_openat, AT_FDCWD, path,
      O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
      0600);
  if (fd < 0 || fd > 2) return static_cast<int>(fd);
  const long high = sys::invoke(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 3L);
  sys::invoke(SYS_close, fd);
  return static_cast<int>(high);
}

long write_file(const char* path, const char* data, size_t size) {
  const int fd = open_target(path);
  if (fd < 0) return fd;
  long err = check_target(fd);
  if (err == 0) err = take_turn(fd);
  if (err == 0) err = sys::invoke(SYS_ftruncate, fd, 0L);
  if (err == 0) err = quiet_write_all(fd, data, size);
  sys::invoke(SYS_close, fd);
  return err;
}

// Through the log: silent when standard error is not ours.
void report(const char* path, int err) {
  TextBuffer<512> m;
  m << "statistics not written to ";
  m.printable(path, 300) << ": ";
  m.error(err);
  log::line(LogLevel::kWarn, m);
}

void write_to_path(const Snapshot& s, const Config& config, const Text& text,
                   Text& path) {
  expand_path(config.stats_path, s, path);
  const long err = path.truncated()
                       ? -ENAMETOOLONG
                       : write_file(path.c_str(), text.c_str(), text.size());
  if (err != 0) report(path.c_str(), static_cast<int>(-err));
}

// The program's name is any file name: as part of ours it must not lead to
// another directory.
void append_program(const char* program, Text& out) {
  for (; *program != 0; ++program) {
    const auto c = static_cast<unsigned char>(*program);
    out << (c == '/' || c < 0x20 || c == 0x7f ? '_' : *program);
  }
}

}  // namespace

void expand_path(const char* pattern, const Snapshot& s, Text& out) {
  for (const char* p = pattern; *p != 0; ++p) {
    if (p[0] != '%') {
      out << *p;
      continue;
    }
    switch (p[1]) {
      case 'p':
        out << s.pid;
        break;
      case 'c':
        append_program(s.program, out);
        break;
      case '%':
        out << '%';
        break;
      default:
        out << '%';
        continue;  // what follows is an ordinary character
    }
    ++p;
  }
}

bool worth_writing(const Snapshot& s) {
  return s.counters.adopted != 0 || s.counters.read_calls != 0;
}

void write(const Snapshot& s, const Config& config) {
  if (config.stats == StatsTarget::kOff || !worth_writing(s)) return;
  const bool to_stderr = config.stats == StatsTarget::kStderr;
  if (to_stderr && !log::stderr_is_ours()) return;
  const MappedBuffer buffer(room_for(config) + kMaxPath);
  if (!buffer.valid()) return report("memory", ENOMEM);
  Text path(buffer.data(), kMaxPath);
  Text text(buffer.data() + kMaxPath, buffer.size() - kMaxPath);
  if (config.stats == StatsTarget::kJson) {
    format_json(s, config, text);
  } else {
    format_text(s, config, text);
  }
  if (to_stderr) {
    quiet_write_all(2, text.c_str(), text.size());
  } else {
    write_to_path(s, config, text, path);
  }
}

}  // namespace racache::stats
