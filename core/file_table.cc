// SPDX-License-Identifier: MIT
#include "core/file_table.h"

#include "core/engine.h"
#include "core/lease.h"
#include "core/mapping.h"

namespace racache {
namespace {

constexpr int kMaxPrivateFd = 256 << 10;
constexpr uint64_t kGraceNs = 1'000'000'000;    // programs reopen
constexpr uint64_t kLookEveryNs = 200'000'000;  // for an unlinked file
constexpr uint64_t kLookSoonNs = 2'000'000;     // a read or reader to end
// A change within one timestamp tick of another may leave ctime as it was.
constexpr int64_t kTimestampTickNs = 20'000'000;

uint32_t hash_of(uint64_t device, uint64_t inode) {
  uint64_t h = (inode ^ (device << 32)) * 0x9e3779b97f4a7c15u;
  return static_cast<uint32_t>(h >> 40);
}

int64_t wall_clock_ns() {
  return static_cast<int64_t>(sys::clock_ns(CLOCK_REALTIME));
}

bool quiet(const File& file) {
  return file.references.load(std::memory_order_acquire) == 0 &&
         file.in_flight.load(std::memory_order_acquire) == 0;
}

}  // namespace

bool FileTable::init(Engine& engine) {
  engine_ = &engine;
  owner_ = static_cast<uint32_t*>(
      mapping::reserve(kMaxPrivateFd * sizeof(uint32_t), MADV_DONTFORK));
  bucket_ = static_cast<uint32_t*>(
      mapping::reserve(kBuckets * sizeof(uint32_t), MADV_DONTFORK));
  return owner_ != nullptr && bucket_ != nullptr;
}

File* FileTable::find(uint64_t device, uint64_t inode) const {
  uint32_t n = bucket_[hash_of(device, inode) % kBuckets];
  while (n != 0) {
    File& file = engine_->files[n - 1];
    if (file.device == device && file.inode == inode) return &file;
    n = file.chain;
  }
  return nullptr;
}

File* FileTable::find_by_fd(int fd) const {
  if (fd < 0 || fd >= kMaxPrivateFd || owner_[fd] == 0) return nullptr;
  return &engine_->files[owner_[fd] - 1];
}

void FileTable::set_fd(int fd, const File& file) {
  if (fd >= 0 && fd < kMaxPrivateFd) owner_[fd] = file.number + 1;
}

File* FileTable::allocate() {
  if (free_ != 0) {
    File& file = engine_->files[free_ - 1];
    free_ = file.chain;
    file.chain = 0;
    return &file;
  }
  const uint32_t n = engine_->files_used.load(std::memory_order_relaxed);
  if (n == kMaxFiles) return bury_dormant() ? allocate() : nullptr;
  File& file = engine_->files[n];
  file.number = n;
  file.engine = engine_;
  engine_->files_used.store(n + 1, std::memory_order_release);
  return &file;
}

void FileTable::free(File& file) {
  file.direct_fd = file.buffered_fd = -1;
  file.direct_slot = file.buffered_slot = -1;
  file.chain = free_;
  free_ = file.number + 1;
}

uint32_t FileTable::used() const {
  return engine_->files_used.load(std::memory_order_relaxed);
}

File& FileTable::at(uint32_t number) const { return engine_->files[number]; }

void FileTable::insert(File& file) {
  uint32_t& head = bucket_[hash_of(file.device, file.inode) % kBuckets];
  file.chain = head;
  head = file.number + 1;
  file.in_table = true;
}

void FileTable::remove(File& file) {
  if (!file.in_table) return;
  uint32_t* link = &bucket_[hash_of(file.device, file.inode) % kBuckets];
  while (*link != file.number + 1) link = &engine_->files[*link - 1].chain;
  *link = file.chain;
  file.in_table = false;
}

void FileTable::close_descriptors(File& file) {
  Backend& backend = *engine_->backend;
  if (file.direct_slot >= 0) backend.detach(backend, file.direct_slot);
  if (file.buffered_slot >= 0) backend.detach(backend, file.buffered_slot);
  file.direct_slot = file.buffered_slot = -1;
  if (file.direct_fd >= 0) {
    if (file.direct_fd < kMaxPrivateFd) owner_[file.direct_fd] = 0;
    sys::invoke(SYS_close, file.direct_fd);
  }
  if (file.buffered_fd >= 0) sys::invoke(SYS_close, file.buffered_fd);
  file.direct_fd = file.buffered_fd = -1;
}

// The stamp is read while the lease still holds, so nobody can be changing the
// file; what changes it later moves its ctime, if that is not too fresh.
void FileTable::fall_asleep(File& file, const FileStamp& stamp) {
  file.stamp = stamp;
  lease::release(file.direct_fd);  // now, not when the ring lets go of it
  file.state.store(File::State::kDormant, std::memory_order_release);
  close_descriptors(file);
  enlist(file, kAsleep);
}

void FileTable::condemn(File& file) {
  file.state.store(File::State::kBroken, std::memory_order_seq_cst);
  if (file.direct_fd >= 0) lease::release(file.direct_fd);
  remove(file);
  file.look_ns = 0;
  enlist(file, kWatched);
}

bool FileTable::still_true(const File& file, const FileStamp& now) {
  return file.state.load(std::memory_order_relaxed) == File::State::kDormant &&
         file.stamp == now;
}

bool FileTable::bury(File& file) {
  condemn(file);
  if (!quiet(file)) return false;
  close_descriptors(file);
  engine_->evictor.drop(*engine_, file, 0, file.pages);
  // A slow reader may still look into the index: one grace period more.
  if (!epoch::passed(epoch::retire())) return false;
  {
    LockGuard guard(file.lock);
    file.index.destroy();
    file.state.store(File::State::kFree, std::memory_order_release);
  }
  recent::settle(&file);  // no reader is left, but what they noted
  engine::remember_statistics(*engine_, file);
  enlist(file, kNone);
  free(file);
  return true;
}

// One that is in use again is reported when that ends, so it is not watched.
uint64_t FileTable::look_after(File& file, uint64_t now, uint64_t grace) {
  const bool used = file.references.load(std::memory_order_acquire) != 0;
  const bool quiet_now = quiet(file);
  if (file.state.load(std::memory_order_relaxed) == File::State::kBroken) {
    if (file.in_table) condemn(file);
    if (used) return enlist(file, kCondemned), 0;
    return bury(file) ? 0 : now + kLookSoonNs;
  }
  if (!quiet_now) file.idle_since_ns = 0;
  if (used) return enlist(file, kNone), 0;
  return quiet_now ? look_after_quiet(file, now, grace) : now + kLookSoonNs;
}

// Leased, and nobody uses it.
uint64_t FileTable::look_after_quiet(File& file, uint64_t now, uint64_t grace) {
  if (file.idle_since_ns == 0) file.idle_since_ns = now;
  lease::Facts facts;
  if (!lease::facts_of(file.direct_fd, &facts) || facts.links == 0) {
    return bury(file) ? 0 : now + kLookSoonNs;
  }
  if (now - file.idle_since_ns < grace) return now + kLookEveryNs;
  const bool settled =
      lease::keeps_ctime(file.direct_fd) &&
      wall_clock_ns() - facts.stamp.ctime_ns > kTimestampTickNs;
  const bool gone = !file.trusted && lease::breaking(file.direct_fd);
  if (!settled || gone) {
    return bury(file) ? 0 : now + kLookSoonNs;
  }
  fall_asleep(file, facts.stamp);
  return 0;
}

// Out of the list that it is in, to the end of another.
void FileTable::enlist(File& file, ListName list) {
  if (file.list == list) return;
  if (file.list != kNone) {
    List& from = lists_[file.list];
    uint32_t& forth = file.before != 0 ? at(file.before - 1).after : from.first;
    uint32_t& back = file.after != 0 ? at(file.after - 1).before : from.last;
    forth = file.after;
    back = file.before;
  }
  file.list = list;
  file.before = file.after = 0;
  if (list == kNone) return;
  List& to = lists_[list];
  file.before = to.last;
  (to.last != 0 ? at(to.last - 1).after : to.first) = file.number + 1;
  to.last = file.number + 1;
}

namespace {

// The earlier of two times, of which 0 is never.
uint64_t sooner(uint64_t a, uint64_t b) {
  return a == 0 || (b != 0 && b < a) ? b : a;
}

}  // namespace

// The mark goes first: who reports it from here on pushes it again.
uint64_t FileTable::look_after_reported(File* first, uint64_t now) {
  uint64_t next = 0;
  while (first != nullptr) {
    File& file = *first;
    first = file.next_reported;
    file.reported.exchange(false, std::memory_order_acq_rel);
    const File::State state = file.state.load(std::memory_order_relaxed);
    if (state != File::State::kLeased && state != File::State::kBroken) continue;
    enlist(file, kWatched);
    file.look_ns = look_after(file, now, kGraceNs);
    next = sooner(next, file.look_ns);
  }
  return next;
}

bool FileTable::bury_dormant() {
  constexpr int kAtOnce = 64;
  int buried = 0;
  for (uint32_t n = lists_[kAsleep].first; n != 0 && buried < kAtOnce;) {
    File& file = at(n - 1);
    n = file.after;
    if (bury(file)) ++buried;
  }
  return buried != 0;
}

bool FileTable::make_room() {
  constexpr int kAtOnce = 64;
  const uint64_t now = sys::monotonic_ns();
  int closed = 0;
  for (uint32_t n = lists_[kWatched].first; n != 0 && closed < kAtOnce;) {
    File& file = at(n - 1);
    n = file.after;
    look_after(file, now, 0);
    if (file.direct_fd < 0) ++closed;
  }
  return closed != 0;
}

bool FileTable::any_open(ListName list, uint64_t device,
                         uint64_t inode) const {
  for (uint32_t n = lists_[list].first; n != 0; n = at(n - 1).after) {
    const File& file = at(n - 1);
    if (file.direct_fd >= 0 && file.device == device && file.inode == inode) {
      return true;
    }
  }
  return false;
}

bool FileTable::holds(uint64_t device, uint64_t inode) const {
  const File* file = find(device, inode);
  return (file != nullptr && file->direct_fd >= 0) ||
         any_open(kWatched, device, inode) ||
         any_open(kCondemned, device, inode);
}

uint64_t FileTable::look_after(uint64_t now) {
  uint64_t next = 0;
  for (uint32_t n = lists_[kWatched].first; n != 0;) {
    File& file = at(n - 1);
    n = file.after;
    if (file.look_ns <= now) file.look_ns = look_after(file, now, kGraceNs);
    if (file.list == kWatched) next = sooner(next, file.look_ns);
  }
  return next;
}

}  // namespace racache
