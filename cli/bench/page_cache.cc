// SPDX-License-Identifier: MIT
// A file is mapped, its resident pages are touched, and /proc/self/pagemap
// tells their frames; /proc/kpageflags says of each frame whether a folio
// begins there or goes on.
#include "cli/bench/page_cache.h"

#include <fcntl.h>
#include <linux/kernel-page-flags.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <bit>

namespace racache::cli::bench {
namespace {

constexpr uint64_t kPage = 4096;

class Handle {
 public:
  explicit Handle(const std::string& path)
      : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~Handle() {
    if (fd_ >= 0) close(fd_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  [[nodiscard]] int get() const { return fd_; }
  // Words [first, first + count) of a file of words.
  bool words(uint64_t first, uint64_t* to, uint64_t count) const {
    const size_t bytes = count * sizeof(uint64_t);
    return pread(fd_, to, bytes,
                 static_cast<off_t>(first * sizeof(uint64_t))) ==
           static_cast<ssize_t>(bytes);
  }

 private:
  int fd_;
};

// Read only what is there: MADV_RANDOM, or a touched mark would read ahead.
class Mapping {
 public:
  Mapping(int fd, uint64_t bytes) : pages_((bytes + kPage - 1) / kPage) {
    void* p = bytes == 0 ? MAP_FAILED
                         : mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) return;
    base_ = static_cast<unsigned char*>(p);
    madvise(p, bytes, MADV_RANDOM);
  }
  ~Mapping() {
    if (base_ != nullptr) munmap(base_, pages_ * kPage);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  [[nodiscard]] bool touch_resident() const {
    std::vector<unsigned char> resident(pages_);
    if (base_ == nullptr ||
        mincore(base_, pages_ * kPage, resident.data()) != 0) {
      return false;
    }
    for (uint64_t i = 0; i < pages_; ++i) {
      if ((resident[i] & 1) != 0) {
        (void)*static_cast<volatile unsigned char*>(base_ + i * kPage);
      }
    }
    return true;
  }
  // The frame of each page; 0: not there, or not told.
  [[nodiscard]] std::vector<uint64_t> frames() const {
    constexpr uint64_t kPresent = uint64_t{1} << 63;
    constexpr uint64_t kFrame = (uint64_t{1} << 55) - 1;
    std::vector<uint64_t> words(pages_);
    const Handle map("/proc/self/pagemap");
    if (!map.words(reinterpret_cast<uintptr_t>(base_) / kPage, words.data(),
                   pages_)) {
      return {};
    }
    for (uint64_t& w : words) w = (w & kPresent) != 0 ? w & kFrame : 0;
    return words;
  }

 private:
  unsigned char* base_ = nullptr;
  uint64_t pages_;
};

bool has(uint64_t flags, int bit) { return (flags >> bit & 1) != 0; }

class Counter {
 public:
  explicit Counter(FolioCount& count) : count_(count) {}
  void next(uint64_t flags) {
    if (has(flags, KPF_COMPOUND_TAIL) && pages_ != 0) {
      ++pages_;
      return;
    }
    end();
    pages_ = 1;
  }
  void end() {
    if (pages_ == 0) return;
    const int order = std::bit_width(pages_) - 1;
    ++count_.by_order[std::min(order, 9)];
    pages_ = 0;
  }

 private:
  FolioCount& count_;
  uint64_t pages_ = 0;  // of the folio that is being walked
};

// Frames that follow each other are asked for together.
bool count(const std::vector<uint64_t>& frames, const Handle& flags,
           FolioCount& result) {
  constexpr size_t kAtOnce = 512;
  uint64_t words[kAtOnce];
  Counter counter(result);
  for (size_t i = 0; i < frames.size();) {
    size_t n = 1;
    while (i + n < frames.size() && n < kAtOnce && frames[i] != 0 &&
           frames[i + n] == frames[i] + n) {
      ++n;
    }
    if (frames[i] == 0) {
      counter.end();
    } else {
      if (!flags.words(frames[i], words, n)) return false;
      for (size_t k = 0; k < n; ++k) counter.next(words[k]);
    }
    i += n;
  }
  counter.end();
  return true;
}

bool count_file(const std::string& path, const Handle& flags,
                FolioCount& result) {
  const Handle file(path);
  struct stat st;
  if (file.get() < 0 || fstat(file.get(), &st) != 0) return false;
  if (st.st_size == 0) return true;
  const Mapping mapping(file.get(), static_cast<uint64_t>(st.st_size));
  return mapping.touch_resident() && count(mapping.frames(), flags, result);
}

}  // namespace

FolioCount cached_folios(const std::vector<std::string>& files) {
  FolioCount result;
  const Handle flags("/proc/kpageflags");
  if (flags.get() < 0) return result;
  for (const std::string& file : files) {
    if (!count_file(file, flags, result)) return {};
  }
  result.known = true;
  return result;
}

}  // namespace racache::cli::bench
