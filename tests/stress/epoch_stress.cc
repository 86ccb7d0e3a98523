// SPDX-License-Identifier: MIT
// The memory structures together, as the cache uses them: readers copy pages in
// sections and compare every word with what the page must hold, while others
// fill, kill, unpublish, poison and reuse the same memory as fast as they can.
// Readers also end and begin, some of them inside a section, and are
// interrupted by a signal handler that reads.
//
//   epoch_stress [seconds] [readers] [seed] [fence]
//
// `fence`: as on a kernel without membarrier.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "core/arena.h"
#include "core/index.h"
#include "core/metadata.h"

using namespace racache;

namespace {

constexpr uint32_t kFiles = 3;
constexpr uint64_t kFilePages = 4096;
constexpr uint64_t kWords = kPageSize / sizeof(uint64_t);
constexpr uint64_t kSecond = 1000000000;

uint64_t content_of(uint32_t file, PageIndex page) {
  return (uint64_t{file} << 48 | page) * 0x9e3779b97f4a7c15u + 1;
}

struct CachedFile {
  FileIndex index;
  Lock lock;
};

struct World {
  Arena arena;
  Metadata metadata;
  CachedFile files[kFiles];
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> hits{0}, fills{0}, evicted{0}, wrong{0}, stuck{0};
  std::atomic<uint64_t> handled{0}, ended{0}, swaps{0};
};
World world;

void put_page(std::byte* to, uint64_t value) {
  uint64_t words[kWords];
  for (uint64_t& word : words) word = value;
  std::memcpy(to, words, sizeof words);
}

// Copies first, as a read does: the check sees what the application would.
bool page_holds(const std::byte* from, uint64_t value, bool dawdle) {
  uint64_t words[kWords];
  std::memcpy(words, from, sizeof words / 2);
  if (dawdle) sched_yield();
  std::memcpy(words + kWords / 2, from + sizeof words / 2, sizeof words / 2);
  for (const uint64_t word : words) {
    if (word != value) return false;
  }
  return true;
}

// In a section. Whether the page was there and up to date.
bool read_page(uint32_t number, PageIndex page, bool dawdle) {
  const FolioId id = world.files[number].index.lookup(page);
  if (id == kNoFolio) return false;
  Folio& folio = world.arena.folio(id);
  const uint32_t word = folio.word.load(std::memory_order_acquire);
  if ((word & Folio::kUptodate) == 0) return false;
  const uint64_t within = page - folio.index;
  const bool right = folio.file == number &&
                     within < uint64_t{1} << Folio::order_of(word) &&
                     page_holds(world.arena.memory(id) + (within << kPageShift),
                                content_of(number, page), dawdle);
  if (!right) world.wrong.fetch_add(1);
  return true;
}

void fill(uint32_t number, PageIndex page, unsigned order) {
  const PageIndex first = round_down(page, uint64_t{1} << order);
  SignalGuard signals;
  const FolioId id = world.arena.allocate(order);
  if (id == kNoFolio) return;
  Folio& folio = world.arena.folio(id);
  folio.begin_fill(number, first, order, false);
  FileIndex::Insert result;
  {
    LockGuard guard(world.files[number].lock);
    result = world.files[number].index.insert(first, order, id);
  }
  if (result != FileIndex::Insert::kOk) {
    folio.abandon_fill();
    world.arena.release(id, order);
    return;
  }
  for (uint64_t i = 0; i < uint64_t{1} << order; ++i) {
    put_page(world.arena.memory(id) + (i << kPageShift),
             content_of(number, first + i));
  }
  folio.end_fill(true);
  world.fills.fetch_add(1, std::memory_order_relaxed);
}

void on_signal(int) {
  ThreadSlot* slot = epoch::self();
  if (slot == nullptr) return;
  epoch::Section section(*slot);
  for (uint32_t i = 0; i < kFiles; ++i) {
    if (read_page(i, i, false)) {
      world.handled.fetch_add(1, std::memory_order_relaxed);
    }
  }
}

void read_for_a_while(uint64_t seed, int reads) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < reads && !world.stop.load(); ++i) {
    ThreadSlot* slot = epoch::self();
    if (slot == nullptr) return;
    const uint32_t number = static_cast<uint32_t>(random() % kFiles);
    // Low pages often, so that there are hits.
    const PageIndex page = random() % (random() % 4 ? 256 : kFilePages);
    bool hit;
    {
      epoch::Section section(*slot);
      hit = read_page(number, page, random() % 16 == 0);
    }
    if (hit) {
      world.hits.fetch_add(1, std::memory_order_relaxed);
    } else {
      fill(number, page, static_cast<unsigned>(random() % 8));
    }
  }
  ThreadSlot* slot = epoch::self();
  if (slot != nullptr && random() % 2 == 0) (void)epoch::enter(*slot);
}

// One reader's place: thread after thread.
void keep_reading(uint64_t seed) {
  for (uint64_t life = 0; !world.stop.load(); ++life) {
    std::thread reader(read_for_a_while, seed + life * 1000, 20000);
    const pthread_t handle = reader.native_handle();
    for (int i = 0; i < 20 && !world.stop.load(); ++i) {
      usleep(500);
      pthread_kill(handle, SIGUSR1);  // joinable: the handle stays valid
    }
    reader.join();
    world.ended.fetch_add(1);
  }
}

struct Dead {
  FolioId id;
  unsigned order;
};

// Kills and unpublishes one folio; what the evictor of the cache does.
bool evict(FolioId id, std::vector<Dead>& limbo) {
  Folio& folio = world.arena.folio(id);
  const uint32_t number = __atomic_load_n(&folio.file, __ATOMIC_RELAXED);
  if (number >= kFiles) return false;
  CachedFile& file = world.files[number];
  LockGuard guard(file.lock);
  const PageIndex first = __atomic_load_n(&folio.index, __ATOMIC_RELAXED);
  if (first >= kFilePages || file.index.lookup(first) != id) return false;
  if (!folio.try_kill()) return false;
  const unsigned order = Folio::order_of(folio.word.load());
  file.index.erase(first, order);
  limbo.push_back({id, order});
  return true;
}

// Poisoned at once: a reader that is still there must not go unnoticed.
void reuse(std::vector<Dead>& limbo) {
  if (!epoch::wait(epoch::retire(), 20 * kSecond)) {
    world.stuck.fetch_add(1);
    world.stop.store(true);
    return;
  }
  for (const Dead& dead : limbo) {
    for (uint64_t i = 0; i < uint64_t{1} << dead.order; ++i) {
      put_page(world.arena.memory(dead.id) + (i << kPageShift), ~uint64_t{0});
    }
    world.arena.release(dead.id, dead.order);
  }
  world.evicted.fetch_add(limbo.size(), std::memory_order_relaxed);
  limbo.clear();
}

void keep_evicting() {
  SignalGuard signals;
  std::vector<Dead> limbo;
  FolioId hand = 1;
  while (!world.stop.load()) {
    const FolioId id = world.arena.next_in_use(hand);
    hand = id == kNoFolio ? 1 : id + 1;
    if (id != kNoFolio) evict(id, limbo);
    if (limbo.size() >= 24 || (id == kNoFolio && !limbo.empty())) reuse(limbo);
    if (id == kNoFolio) sched_yield();
  }
  reuse(limbo);
}

// The bare handshake. Stores to cold memory go before each section and hold up
// the reader's announcement in its CPU's store buffer: without membarrier or
// fence, this finds a node in use that was taken for free.
struct alignas(64) Node {
  std::atomic<bool> freed{false};
};
Node nodes[2];
alignas(64) std::atomic<uint32_t> published{0};
constexpr size_t kColdBytes = 64 << 20;
char cold[kColdBytes];

void keep_looking() {
  ThreadSlot* slot = epoch::self();
  if (slot == nullptr) return;
  std::mt19937_64 random(1);
  while (!world.stop.load(std::memory_order_relaxed)) {
    for (int i = 0; i < 24; ++i) {
      static_cast<volatile char*>(cold)[random() % kColdBytes] = 1;
    }
    epoch::Section section(*slot);
    const Node& node = nodes[published.load(std::memory_order_acquire)];
    for (int look = 0; look < 500; ++look) {
      if (node.freed.load(std::memory_order_relaxed)) world.wrong.fetch_add(1);
    }
  }
}

void keep_swapping() {
  for (uint32_t old = 0; !world.stop.load(); old = 1 - old) {
    nodes[1 - old].freed.store(false);
    published.store(1 - old, std::memory_order_release);
    const epoch::Stamp stamp = epoch::retire();
    while (!epoch::passed(stamp) && !world.stop.load()) {
    }
    if (world.stop.load()) return;
    nodes[old].freed.store(true);
    world.swaps.fetch_add(1, std::memory_order_relaxed);
  }
}

void run_handshake(unsigned tenths) {
  std::thread looker(keep_looking);
  std::thread swapper(keep_swapping);
  for (unsigned i = 0; i < tenths; ++i) usleep(100000);
  world.stop.store(true);
  looker.join();
  swapper.join();
  world.stop.store(false);
}

bool refuse_membarrier() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {4, filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

void make_world() {
  bool made =
      epoch::init() && world.arena.init(4 * kBlockSize, HugePages::kNever);
  made = made && world.metadata.init(256 << 10);
  for (CachedFile& file : world.files) {
    made = made && file.index.init(kFilePages, world.metadata);
  }
  if (!made) std::abort();
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
}

// Everything that is still cached goes; then nothing may be missing.
bool all_memory_is_back() {
  for (CachedFile& file : world.files) {
    std::vector<Dead> limbo;
    PageIndex page = 0;
    while ((page = file.index.next_present(page, kFilePages)) < kFilePages) {
      const FolioId id = file.index.lookup(page);
      const unsigned order = Folio::order_of(world.arena.folio(id).word.load());
      file.index.erase(page, order);
      world.arena.release(id, order);
    }
    file.index.destroy();
  }
  return world.arena.free_pages() == 4 * kBlockPages &&
         world.arena.largest_free_order() == kMaxOrder &&
         world.arena.next_in_use(1) == kNoFolio && world.metadata.used() == 0;
}

bool report(bool clean) {
  std::printf("hits %" PRIu64 " fills %" PRIu64 " evicted %" PRIu64
              " in handlers %" PRIu64 " threads %" PRIu64 " swaps %" PRIu64
              "\n",
              world.hits.load(), world.fills.load(), world.evicted.load(),
              world.handled.load(), world.ended.load(), world.swaps.load());
  if (world.wrong != 0)
    std::printf("WRONG BYTES in %" PRIu64 " reads\n", world.wrong.load());
  if (world.stuck != 0) std::printf("a grace period did not end\n");
  if (!clean) std::printf("memory is missing at the end\n");
  const bool busy =
      world.hits > 1000 && world.evicted > 100 && world.swaps > 100;
  if (!busy) std::printf("too little happened to conclude anything\n");
  return clean && busy && world.wrong == 0 && world.stuck == 0;
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned seconds = argc > 1 ? atoi(argv[1]) : 3;
  const unsigned readers = argc > 2 ? atoi(argv[2]) : 3;
  const uint64_t seed = argc > 3 ? strtoull(argv[3], nullptr, 0) : 1;
  std::printf("epoch_stress %u %u %" PRIu64 "\n", seconds, readers, seed);
  if (argc > 4 && !refuse_membarrier()) return 77;
  make_world();
  run_handshake(seconds * 10 / 3 + 1);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < readers; ++i) {
    threads.emplace_back(keep_reading, seed * 1000000 + i);
  }
  threads.emplace_back(keep_evicting);
  for (unsigned i = 0; i < seconds * 10 && !world.stop.load(); ++i) {
    usleep(100000);
  }
  world.stop.store(true);
  for (std::thread& thread : threads) thread.join();
  return report(all_memory_is_back()) ? 0 : 1;
}
