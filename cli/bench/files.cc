// SPDX-License-Identifier: MIT
#include "cli/bench/files.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "cli/bench/child.h"
#include "cli/bench/workloads.h"

namespace racache::cli::bench {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t kStep = 1 << 20;

struct Descriptor {
  int fd;
  ~Descriptor() { close(fd); }
};

void check_space(const std::string& directory, uint64_t size) {
  struct statvfs st;
  if (statvfs(directory.c_str(), &st) != 0) throw_errno(directory);
  const uint64_t free = uint64_t{st.f_bavail} * st.f_frsize;
  if (free > size + size / 16) return;
  throw std::runtime_error(directory + ": " + std::to_string(free >> 20) +
                           " MiB are free, " + std::to_string(size >> 20) +
                           " MiB are needed; see --size and --dir");
}

void write_all(int fd, const char* from, uint64_t bytes) {
  while (bytes != 0) {
    const ssize_t n = write(fd, from, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_errno("write");
    from += n;
    bytes -= static_cast<uint64_t>(n);
  }
}

// Random bytes: no file system can leave out or compress them.
void make_file(const std::string& path, uint64_t size) {
  const Descriptor file{
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
  if (file.fd < 0) throw_errno(path);
  // In as few pieces on the disk as can be had; not every file system can.
  (void)!fallocate(file.fd, 0, 0, static_cast<off_t>(size));
  SplitMix64 random(size);
  std::vector<uint64_t> block(kStep / sizeof(uint64_t));
  for (uint64_t at = 0; at < size; at += kStep) {
    throw_if_interrupted();
    for (uint64_t& word : block) word = random.next();
    write_all(file.fd, reinterpret_cast<const char*>(block.data()),
              std::min(kStep, size - at));
  }
  if (fsync(file.fd) != 0) throw_errno("fsync");
}

}  // namespace

WorkDirectory::WorkDirectory(const std::string& parent) {
  std::string name = fs::absolute(parent) / ".racache-bench-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) throw_errno(parent);
  path_ = fs::canonical(name);
  statistics_ = path_ + "/statistics";
  fs::create_directory(statistics_);
}

WorkDirectory::~WorkDirectory() {
  std::error_code error;
  fs::remove_all(path_, error);
}

const std::string& WorkDirectory::data(uint64_t size) {
  if (data_size_ == size) return data_;
  std::error_code error;
  if (!data_.empty()) fs::remove(data_, error);
  data_size_ = 0;
  data_ = path_ + "/data";
  check_space(path_, size);
  make_file(data_, size);
  data_size_ = size;
  return data_;
}

const std::string& WorkDirectory::warm() {
  if (warm_.empty()) {
    make_file(path_ + "/warm", 64 << 10);
    warm_ = path_ + "/warm";
  }
  return warm_;
}

std::string WorkDirectory::statistics_option() const {
  std::string option = "json:";
  for (const char c : statistics_) {
    option += c;
    if (c == '%') option += c;  // or the library would replace %p and %c
  }
  return option + "/%p";
}

std::vector<std::string> WorkDirectory::take_statistics() {
  std::vector<std::string> texts;
  for (const fs::directory_entry& entry : fs::directory_iterator(statistics_)) {
    std::ifstream file(entry.path());
    std::ostringstream text;
    text << file.rdbuf();
    texts.push_back(text.str());
    fs::remove(entry.path());
  }
  return texts;
}

}  // namespace racache::cli::bench
