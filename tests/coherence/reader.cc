// SPDX-License-Identifier: MIT
// The reading half of the coherence tests: the process that runs under the
// library. It knows nothing of what the other one does to the files.
#include "rounds.h"

#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace coherence {

uint64_t next_random(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

void make_block(Block& b, uint64_t generation, uint64_t index) {
  b.generation = generation;
  b.index = index;
  uint64_t state = generation * 1000003 + index;
  for (uint64_t& word : b.words) word = next_random(state);
  b.sum = hash(&b.generation, kBlock - sizeof b.sum);
}

bool block_is_whole(const Block& b) {
  return b.sum == hash(&b.generation, kBlock - sizeof b.sum);
}

namespace {

struct Open {
  int fd = -1;
  char* map = nullptr;
  size_t map_bytes = 0;
};

std::vector<char> buffer(8 << 20);

void name_of(char (&name)[32], uint32_t file, uint32_t version) {
  snprintf(name, sizeof name, "%u.%u", file, version);
}

Answer of(ssize_t got) { return {got, hash(buffer.data(), got > 0 ? got : 0)}; }

void forget(Open& o) {
  if (o.map != nullptr) munmap(o.map, o.map_bytes);
  if (o.fd >= 0) close(o.fd);
  o = Open();
}

int64_t warm(Open& o, const char* name) {
  if (o.fd < 0) o.fd = open(name, O_RDONLY);
  off_t at = 0;
  for (ssize_t got; (got = pread(o.fd, buffer.data(), 131072, at)) > 0;)
    at += got;
  return at;
}

void warm_map(Open& o) {
  if (o.map != nullptr) munmap(o.map, o.map_bytes);
  struct stat s;
  o.map = nullptr;
  if (fstat(o.fd, &s) != 0 || s.st_size == 0) return;
  o.map_bytes = s.st_size;
  void* p = mmap(nullptr, o.map_bytes, PROT_READ, MAP_SHARED, o.fd, 0);
  if (p == MAP_FAILED) return;
  o.map = static_cast<char*>(p);
  madvise(o.map, o.map_bytes, MADV_WILLNEED);
  buffer[0] = static_cast<char>(hash(o.map, o.map_bytes));
}

Answer mapped(const Open& o, const Question& q) {
  if (o.map == nullptr || q.at >= off_t(o.map_bytes)) return {-2, 0};
  size_t n = std::min<size_t>(q.bytes, o.map_bytes - q.at);
  return {int64_t(n), hash(o.map + q.at, n)};
}

Answer size_and_end(const Open& o) {
  struct stat s = {};
  fstat(o.fd, &s);
  ssize_t at_end = pread(o.fd, buffer.data(), 4096, s.st_size);
  return {s.st_size, static_cast<uint64_t>(at_end)};
}

Answer reopened(const char* name, const Question& q) {
  int fd = open(name, O_RDONLY);
  Answer a = of(pread(fd, buffer.data(), q.bytes, q.at));
  close(fd);
  return a;
}

Answer answer(Open& o, const Question& q) {
  char name[32];
  name_of(name, q.file, q.version);
  switch (q.ask) {
    case Ask::kWarm:
      return {warm(o, name), 0};
    case Ask::kWarmMap:
      warm(o, name);
      warm_map(o);
      return {0, 0};
    case Ask::kPread:
      return of(pread(o.fd, buffer.data(), q.bytes, q.at));
    case Ask::kRead:
      lseek(o.fd, q.at, SEEK_SET);
      return of(read(o.fd, buffer.data(), q.bytes));
    case Ask::kReopen:
      return reopened(name, q);
    case Ask::kMapped:
      return mapped(o, q);
    case Ask::kSize:
      return size_and_end(o);
    default:
      forget(o);
      return {0, 0};
  }
}

// Blocks in [from, from + count) of one file, all of which must be whole and
// no older than what was finished before the read began.
void check_once(Control& control, int fd, FileState& state, unsigned count,
                Block* blocks, uint64_t from, uint64_t done) {
  ssize_t got = pread(fd, blocks, count * kBlock, from * kBlock);
  // Pairs with the writer's store before its open: a change that began
  // during our read excuses a mix, but never an old generation.
  uint64_t started = state.started.load(std::memory_order_acquire);
  bool wrong = got < 0 || got % kBlock != 0;
  for (unsigned i = 0; !wrong && i < got / kBlock; ++i) {
    const Block& b = blocks[i];
    if (!block_is_whole(b)) {
      if (started == done)
        wrong = true;
      else
        control.torn_while_changing.fetch_add(1);
      continue;
    }
    wrong =
        b.index != from + i || b.generation < done || b.generation > started;
  }
  control.reads.fetch_add(1, std::memory_order_relaxed);
  if (wrong) control.wrong.fetch_add(1);
}

void read_in_thread(Control& control, uint64_t seed) {
  std::vector<Block> blocks(16);
  int fds[kFiles];
  uint32_t versions[kFiles];
  std::fill(fds, fds + kFiles, -1);
  while (control.stop.load(std::memory_order_relaxed) == 0) {
    unsigned i = next_random(seed) % kFiles;
    FileState& state = control.files[i];
    uint64_t done = state.done.load(std::memory_order_acquire);
    uint32_t version = state.version.load(std::memory_order_acquire);
    if (fds[i] < 0 || versions[i] != version || seed % 200 == 0) {
      char name[32];
      name_of(name, i, version);
      if (fds[i] >= 0) close(fds[i]);
      fds[i] = open(name, O_RDONLY);
      versions[i] = version;
      if (fds[i] < 0) continue;  // replaced this moment
    }
    unsigned count = 1 + next_random(seed) % 16;
    uint64_t from = next_random(seed) % 64;
    check_once(control, fds[i], state, count, blocks.data(), from, done);
  }
}

}  // namespace

int serve_questions() {
  static Open opens[kFiles];
  Question q;
  while (read(0, &q, sizeof q) == sizeof q && q.ask != Ask::kQuit) {
    Answer a = answer(opens[q.file], q);
    if (write(1, &a, sizeof a) != sizeof a) return 1;
  }
  return 0;
}

int read_all_the_time(int control_fd) {
  void* p = mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED,
                 control_fd, 0);
  if (p == MAP_FAILED) return 2;
  auto& control = *static_cast<Control*>(p);
  std::vector<std::thread> threads;
  for (uint64_t i = 1; i <= 4; ++i)
    threads.emplace_back([&control, i] { read_in_thread(control, i); });
  for (std::thread& t : threads) t.join();
  return 0;
}

}  // namespace coherence
