// SPDX-License-Identifier: MIT
// What the tests of preload/ share: tracked descriptors over the fake engine,
// and the calls of read.cc and seek.cc without the exported names, which would
// take over the test's own libc calls.
#pragma once

#include <sys/wait.h>

#include <cerrno>
#include <random>
#include <string>

#include "preload/adoption.h"
#include "preload/fd_table.h"
#include "preload/hit.h"
#include "preload/serve.h"
#include "unit/fake_engine.h"

namespace tracked_test {

using namespace racache::preload;

// Raw, because descriptors race here on purpose and ThreadSanitizer watches
// libc's calls for just that.
inline ssize_t pread_raw(int fd, void* buffer, size_t count, off_t offset) {
  return ::syscall(SYS_pread64, fd, buffer, count, offset);
}

// A file of random bytes, removed at the end.
struct TestFile {
  std::string bytes;
  std::string path;
  explicit TestFile(size_t size, unsigned seed = 1) {
    static std::atomic<int> serial{0};
    path = "/tmp/tracked_test." + std::to_string(getpid()) + "." +
           std::to_string(++serial);
    std::mt19937 random(seed);
    bytes.resize(size);
    for (char& byte : bytes) byte = static_cast<char>(random());
    const int fd = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    if (::write(fd, bytes.data(), size) != static_cast<ssize_t>(size)) abort();
    ::close(fd);
  }
  ~TestFile() { ::unlink(path.c_str()); }
  std::string part(size_t at, size_t count) const {
    return at < bytes.size() ? bytes.substr(at, count) : std::string();
  }
};

inline int open_tracked(const std::string& path, int flags = O_RDONLY) {
  const int fd = static_cast<int>(
      ::syscall(SYS_openat, AT_FDCWD, path.c_str(), flags | O_CLOEXEC, 0));
  fd_opened(fd, flags);
  return fd;
}
inline void close_tracked(int fd) {
  fd_closing(fd);
  ::syscall(SYS_close, fd);
}
inline int dup_tracked(int fd) {
  const int copy = static_cast<int>(::syscall(SYS_dup, fd));
  fd_duplicated(fd, copy);
  return copy;
}

inline long as_libc(long answer) {
  if (answer >= 0) return answer;
  errno = static_cast<int>(-answer);
  return -1;
}
inline ssize_t do_read(int fd, void* buffer, size_t count) {
  const size_t hit = tracked(fd) ? hit_next(fd, buffer, count) : 0;
  if (hit != 0) return static_cast<ssize_t>(hit);
  if (!may_serve(fd)) return ::read(fd, buffer, count);
  serve::KernelUse use;
  iovec storage;
  const long got =
      serve::read_next(fd, serve::one_buffer(buffer, count, storage), use);
  return got != serve::kPass ? as_libc(got) : ::read(fd, buffer, count);
}
inline ssize_t do_readv(int fd, const iovec* iov, int count) {
  if (!may_serve(fd)) return ::readv(fd, iov, count);
  serve::KernelUse use;
  const long got = serve::read_next(fd, serve::many_buffers(iov, count), use);
  return got != serve::kPass ? as_libc(got) : ::readv(fd, iov, count);
}
inline ssize_t do_pread(int fd, void* buffer, size_t count, off_t offset) {
  const size_t hit = tracked(fd) ? hit_at(fd, buffer, count, offset) : 0;
  if (hit != 0) return static_cast<ssize_t>(hit);
  if (!may_serve(fd)) return pread_raw(fd, buffer, count, offset);
  iovec storage;
  const long got =
      serve::read_at(fd, serve::one_buffer(buffer, count, storage), offset);
  return got != serve::kPass ? as_libc(got)
                             : pread_raw(fd, buffer, count, offset);
}
inline off_t do_lseek(int fd, off_t offset, int whence) {
  if (!may_serve(fd)) return ::lseek(fd, offset, whence);
  serve::KernelUse use;
  const long at = serve::seek(fd, offset, whence, use);
  return at != serve::kPass ? as_libc(at) : ::lseek(fd, offset, whence);
}
inline std::string read_string(int fd, size_t count) {
  std::string got(count, '?');
  const ssize_t n = do_read(fd, got.data(), count);
  got.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return got;
}
inline std::string pread_string(int fd, size_t count, off_t offset) {
  std::string got(count, '?');
  const ssize_t n = do_pread(fd, got.data(), count, offset);
  got.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return got;
}
inline off_t kernel_position(int fd) { return ::lseek(fd, 0, SEEK_CUR); }
inline OpenFile& description(int fd) {
  return open_file(number_of(slot_word(fd)));
}
inline Stage stage(int fd) { return stage_of(description(fd).status.load()); }
inline bool is_private(int fd) {
  return position::is_private(description(fd).position.load());
}

// Runs `body` in a forked child; true if it returned true. The sanitizers'
// threads are not wanted there, hence _exit.
template <class Body>
bool in_child(Body body, bool announced = true) {
  if (announced) share_positions(Share::kAll);
  const pid_t pid = ::fork();
  if (pid == 0) _exit(body() ? 0 : 1);
  int status = -1;
  waitpid(pid, &status, 0);
  return status == 0;
}

}  // namespace tracked_test
