// SPDX-License-Identifier: MIT
// A cached file: one inode, held under one read lease, with its folios.
//
// Life (only the service thread moves it, except for leased -> broken by a
// lost ring):
//
//   free -> leased     adoption: descriptors, lease, index
//   leased -> broken   a writer came: nothing is served from it ever again
//   leased -> dormant  the last description was closed and the grace is over:
//                      lease and descriptors gone, folios kept
//   dormant -> leased  adopted again, and nothing had changed meanwhile
//   broken|dormant -> free  no reference, no read in flight, a grace period
//
// A reader may use a File it found through an open file description inside an
// epoch section, or while it holds a reference.
#pragma once

#include <atomic>

#include "core/index.h"
#include "core/lock.h"

namespace racache {

struct Engine;

// What must be unchanged for a dormant file's folios to be believed.
struct FileStamp {
  uint64_t size;
  int64_t ctime_ns;
  int64_t birth_ns;
  bool operator==(const FileStamp&) const = default;
};

class File {
 public:
  enum class State : uint32_t { kFree, kLeased, kBroken, kDormant };

  bool readable() const {
    // Acquire: a reader that sees kLeased sees the index and size of adoption.
    // The store of kBroken precedes F_UNLCK, which precedes the writer's open.
    return state.load(std::memory_order_acquire) == State::kLeased;
  }

  std::atomic<State> state;
  uint32_t number;       // in the engine's file table
  Engine* engine;
  uint64_t size;         // bytes; constant while leased
  uint64_t plain_size;   // as core/hit.h has it: 0 when reads are compared
  uint64_t pages;
  FileIndex index;
  Lock lock;             // index changes and planning

  std::atomic<uint32_t> references;  // descriptions, and slow calls under way
  std::atomic<uint32_t> in_flight;   // reads submitted and not done
  std::atomic<bool> check_page_cache;  // some of it may be in the kernel's
  uint32_t ra_pages;                 // of the device, at adoption
  uint32_t io_pages;
  int32_t direct_slot;               // of the backend; -1 none
  int32_t buffered_slot;

  // The service thread's own.
  int direct_fd, buffered_fd;        // in its private table; -1 none
  uint64_t device, inode;
  FileStamp stamp;                   // valid while dormant
  uint64_t idle_since_ns;            // last description closed; 0: in use
  bool trusted;                      // RACACHE_COHERENCE=trust: no lease
  bool in_table;                     // found by (device, inode)
  uint32_t chain;                    // next in its bucket or free list, + 1
  uint32_t before, after;            // in one of the table's lists, + 1
  uint8_t list;                      // which one
  uint64_t look_ns;                  // when to look after it

  // Told of by whoever dropped the last reference, or found it wrong. The flag
  // keeps it from being pushed twice; acquire and release with that push.
  std::atomic<bool> reported;
  File* next_reported;

  // Statistics; readers tell of hits in batches (core/recent.h).
  std::atomic<uint64_t> hits, waits, device_bytes;
  char path[200];                    // its end, when it is longer
};

// Names the file beyond the life of its File.
inline uint64_t identity_of(const File& file) {
  return (file.inode ^ (file.device << 40)) * 0x9e3779b97f4a7c15u;
}

}  // namespace racache
