// SPDX-License-Identifier: MIT
// What writer and reader of the coherence tests say to each other, and the
// block format of the threaded one.
#pragma once

#include <atomic>
#include <cstdint>

#include <sys/types.h>

#include "../lib/hash.h"

namespace coherence {

enum class Ask : uint32_t {
  kWarm,     // read all of the file through the descriptor kept open
  kWarmMap,  // the same, and map it with a WILLNEED hint
  kPread,    // hash of a range through the kept descriptor
  kRead,     // the same by lseek and read
  kReopen,   // the same by a new open of the name
  kMapped,   // the same through the mapping made by kWarmMap
  kSize,     // fstat's size, and that a read at the end returns 0
  kForget,   // close descriptor and mapping
  kQuit,
};

struct Question {
  Ask ask;
  uint32_t file;  // name "FILE.VERSION"
  uint32_t version;
  uint64_t bytes;
  off_t at;
};

struct Answer {
  int64_t result;
  uint64_t hash;
};

inline constexpr unsigned kFiles = 16;
inline constexpr unsigned kBlock = 4096;

struct Block {
  uint64_t sum;  // of the rest
  uint64_t generation;
  uint64_t index;
  uint64_t words[kBlock / 8 - 3];
};
static_assert(sizeof(Block) == kBlock);

// Shared by the processes in memory. Orders: the writer stores `started`
// before it opens the file, `done` (release) after it closed it; the reader
// loads `done` (acquire) before its read, `started` after it.
struct FileState {
  std::atomic<uint64_t> started, done;
  std::atomic<uint32_t> version;  // stored before `done`, loaded after it
};
struct Control {
  FileState files[kFiles];
  std::atomic<uint32_t> stop;
  std::atomic<uint64_t> reads, wrong, torn_while_changing;
};

uint64_t next_random(uint64_t& state);
void make_block(Block& b, uint64_t generation, uint64_t index);
bool block_is_whole(const Block& b);

int serve_questions();                  // the reader of the rounds
int read_all_the_time(int control_fd);  // the reader with four threads

}  // namespace coherence
