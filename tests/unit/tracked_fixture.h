// SPDX-License-Identifier: MIT
// What the tests of preload/ share: tracked descriptors over the fake engine.
#pragma once

#include <sys/wait.h>

#include <random>
#include <string>

#include "preload/adoption.h"
#include "unit/fake_engine.h"
#include "unit/tracked_calls.h"

namespace tracked_test {

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
