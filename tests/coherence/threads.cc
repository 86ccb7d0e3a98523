// SPDX-License-Identifier: MIT
// One process reads with four threads all the time while this one writes
// generation after generation: while a file changes, blocks may be old or
// new; as soon as the writer is done, only new.
#include "writer.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace coherence {
namespace {

constexpr unsigned kBlocks = 80;

void write_generation(Writer& w, const char* name, uint64_t generation,
                      bool create) {
  static std::vector<Block> blocks(kBlocks);
  for (unsigned i = 0; i < kBlocks; ++i) make_block(blocks[i], generation, i);
  int way = create ? 0 : w.below(3);
  int fd = create ? open(name, O_RDWR | O_CREAT | O_TRUNC, 0644)
                  : open_timed(w, name, way == 1 ? O_RDWR | O_DIRECT : O_RDWR);
  size_t n = kBlocks * kBlock;
  bool good = true;
  if (way == 2) {
    void* p = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    memcpy(p, blocks.data(), n);
    munmap(p, n);
  } else if (way == 1) {
    memcpy(w.aligned, blocks.data(), n);
    good = pwrite(fd, w.aligned, n, 0) == ssize_t(n);
  } else {
    for (unsigned i = 0; i < kBlocks; i += 16)
      good &= pwrite(fd, &blocks[i], 16 * kBlock, i * kBlock) == 16 * kBlock;
  }
  close(fd);
  if (!good) exit(2);
}

void next_generation(Writer& w, Control& control, unsigned file) {
  FileState& state = control.files[file];
  uint64_t generation = state.started.load() + 1;
  uint32_t version = state.version.load();
  bool anew = version == 0 || w.below(5) == 0;
  char name[32], old[32];
  name_of(old, file, version);
  name_of(name, file, anew ? version + 1 : version);
  // Seen by readers before anything of the file can change.
  state.started.store(generation, std::memory_order_seq_cst);
  write_generation(w, name, generation, anew);
  if (anew) state.version.store(version + 1, std::memory_order_release);
  // A reader that loads this may rely on every byte of the generation.
  state.done.store(generation, std::memory_order_release);
  if (anew && version != 0) unlink(old);
}

}  // namespace

int threads(Writer& w, double seconds, const char* library) {
  int fd = memfd_create("control", 0);
  if (ftruncate(fd, sizeof(Control)) != 0) return 2;
  void* p =
      mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  auto& control = *new (p) Control();
  for (unsigned i = 0; i < kFiles; ++i) next_generation(w, control, i);
  w.reader = start_reader(
      library, {"coherence_rounds", "--threads", std::to_string(fd)}, -1, -1);
  auto end =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  unsigned changes = 0;
  while (std::chrono::steady_clock::now() < end && control.wrong == 0) {
    next_generation(w, control, w.below(kFiles));
    ++changes;
    usleep(w.below(4) ? w.below(20000) : 0);
  }
  control.stop.store(1);
  int status = -1;
  waitpid(w.reader, &status, 0);
  bool quick = report_held_up(w);
  printf(
      "%u changes, %lu reads, %lu wrong, %lu blocks mixed while changing, "
      "status %x\n",
      changes, control.reads.load(), control.wrong.load(),
      control.torn_while_changing.load(), status);
  bool busy = control.reads.load() > changes;
  return control.wrong == 0 && status == 0 && busy && quick ? 0 : 1;
}

}  // namespace coherence
