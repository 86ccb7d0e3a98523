// SPDX-License-Identifier: MIT
// An engine for tests of preload/: files are arrays in memory, adoption says
// what the test wants, and hits can be made to stop short. Takes the place of
// core/engine.cc and core/cache.cc; included by one file of an executable.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "core/engine.h"
#include "core/epoch.h"
#include "preload/faults.h"
#include "preload/init.h"

namespace fake {

struct FakeFile {
  std::vector<char> bytes;
  std::atomic<bool> readable{true};
  std::atomic<int> references{0};
};

struct Engine {
  std::atomic<bool> running{true};
  std::atomic<int> adoptions{0};  // attempts
  std::atomic<int> glances{0};
  std::atomic<int> releases{0};
  std::atomic<int> refusals_counted{0};
  racache::Reason refuse = racache::Reason::kNone;
  bool retry = false;
  int adoption_us = 0;
  void (*during_adoption)(int fd) = nullptr;
  std::atomic<size_t> hit_most{SIZE_MAX};   // bytes before a hit stops
  std::atomic<size_t> read_most{SIZE_MAX};  // and before the slow half does
  std::atomic<int> advice_seen{0};          // bit per advice
  std::atomic<int> hints{0};
  std::mutex mutex;
  std::vector<std::unique_ptr<FakeFile>> files;  // never freed before the end
  FakeFile* newest = nullptr;

  void reset() {
    refuse = racache::Reason::kNone;
    retry = false;
    adoption_us = 0;
    during_adoption = nullptr;
    hit_most = read_most = SIZE_MAX;
    glances = adoptions = releases = refusals_counted = advice_seen = hints = 0;
    newest = nullptr;
  }
};
inline Engine engine;

inline racache::File& as_file(FakeFile& file) {
  return reinterpret_cast<racache::File&>(file);
}
inline FakeFile& as_fake(const racache::File& file) {
  return reinterpret_cast<FakeFile&>(const_cast<racache::File&>(file));
}

inline FakeFile* load(int fd) {
  struct stat st;
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) return nullptr;
  auto file = std::make_unique<FakeFile>();
  file->bytes.resize(static_cast<size_t>(st.st_size));
  const ssize_t got = ::pread(fd, file->bytes.data(), file->bytes.size(), 0);
  if (got != st.st_size) return nullptr;
  std::lock_guard guard(engine.mutex);
  engine.files.push_back(std::move(file));
  return engine.newest = engine.files.back().get();
}

// Copies [offset + skip, ...) of the file, at most `most` bytes altogether.
inline racache::cache::ReadResult copy(const FakeFile& file, const iovec* iov,
                                       int count, uint64_t offset, size_t skip,
                                       size_t most) {
  size_t total = 0;
  for (int i = 0; i < count; ++i) total += iov[i].iov_len;
  const size_t size = file.bytes.size();
  const size_t left = offset < size ? size - offset : 0;
  if (total > left) total = left;
  const size_t end = total < most ? total : most;
  size_t before = 0;
  for (int i = 0; i < count && before < end; before += iov[i++].iov_len) {
    const size_t from = skip > before ? skip : before;
    size_t to = before + iov[i].iov_len;
    if (to > end) to = end;
    if (from >= to) continue;
    std::memcpy(static_cast<char*>(iov[i].iov_base) + (from - before),
                file.bytes.data() + offset + from, to - from);
  }
  return {end > skip ? end : skip, end == total};
}

}  // namespace fake

namespace racache {

namespace engine {
uint32_t generation() {
  return fake::engine.running.load() ? epoch::process_number() : 0;
}
uint32_t process_number() { return epoch::process_number(); }
void count_refusal(Reason) { ++fake::engine.refusals_counted; }
bool settle_breaks(Patience) { return false; }
bool leases_watched() { return true; }
Reason hopeless(int fd) {
  ++fake::engine.glances;
  struct stat st;
  return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0
             ? Reason::kNone
             : Reason::kSmall;
}
Adopted adopt(int fd, OpenStream&) {
  ++fake::engine.adoptions;
  if (fake::engine.adoption_us != 0) usleep(fake::engine.adoption_us);
  if (fake::engine.during_adoption != nullptr) fake::engine.during_adoption(fd);
  if (fake::engine.refuse != Reason::kNone)
    return {nullptr, 0, fake::engine.refuse, fake::engine.retry};
  fake::FakeFile* file = fake::load(fd);
  if (file == nullptr) return {nullptr, 0, Reason::kFileSystem, false};
  ++file->references;
  return {&fake::as_file(*file), generation(), Reason::kNone, false};
}
void release(File& file, uint32_t) {
  ++fake::engine.releases;
  --fake::as_fake(file).references;
}
}  // namespace engine

namespace cache {
uint64_t size(const File& file) { return fake::as_fake(file).bytes.size(); }
bool readable(const File& file) {
  return fake::as_fake(file).readable.load() && fake::engine.running.load();
}
// Plain while hits are not to stop, and within the file.
struct Plain {
  static bool current() { return true; }  // the fake has no leases
  static size_t hit(File& file, OpenStream&, ThreadSlot&, void* to,
                    size_t bytes, uint64_t offset) {
    const fake::FakeFile& f = fake::as_fake(file);
    if (!readable(file) || fake::engine.hit_most.load() != SIZE_MAX) return 0;
    if (offset >= f.bytes.size()) return 0;
    const iovec iov{to, bytes};
    return fake::copy(f, &iov, 1, offset, 0, SIZE_MAX).done;
  }
  static size_t hit_next(File& file, OpenStream&, ThreadSlot&, void* to,
                         size_t bytes, std::atomic<int64_t>& position) {
    int64_t at = position.load();
    const uint64_t offset = static_cast<uint64_t>(at);
    const uint64_t size = fake::as_fake(file).bytes.size();
    if (at < 0 || offset >= size) return 0;
    if (!readable(file) || fake::engine.hit_most.load() != SIZE_MAX) return 0;
    if (bytes > size - offset) bytes = size - offset;
    if (!position.compare_exchange_strong(at, at + static_cast<int64_t>(bytes)))
      return 0;
    // The stretch is this reader's now, whatever becomes of the file.
    const iovec iov{to, bytes};
    return fake::copy(fake::as_fake(file), &iov, 1, offset, 0, SIZE_MAX).done;
  }
};
ReadResult read_hit(File& file, OpenStream&, const iovec* iov, int count,
                    uint64_t offset) {
  if (!readable(file)) return {0, false};
  return fake::copy(fake::as_fake(file), iov, count, offset, 0,
                    fake::engine.hit_most.load());
}
ReadResult read(File& file, OpenStream&, const iovec* iov, int count,
                uint64_t offset, int, size_t skip) {
  if (!readable(file)) return {skip, false};
  return fake::copy(fake::as_fake(file), iov, count, offset, skip,
                    fake::engine.read_most.load());
}
void willneed(File&, OpenStream&, uint64_t, uint64_t, int) {
  ++fake::engine.hints;
}
void dontneed(File&, uint64_t, uint64_t) { ++fake::engine.hints; }
void advise(File&, OpenStream&, int advice) {
  fake::engine.advice_seen |= 1 << advice;
}
}  // namespace cache

namespace preload {
std::atomic<State> state_word{State::kReady};
void turn_off() { state_word = State::kOff; }
namespace faults {
void arm() {}
}  // namespace faults
}  // namespace preload

}  // namespace racache
