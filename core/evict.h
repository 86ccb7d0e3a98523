// SPDX-License-Identifier: MIT
// Which folio goes next: second chance over the arena's frames (a clock hand),
// and the limbo where dead folios wait for their grace period.
#pragma once

#include "core/arena.h"
#include "core/epoch.h"
#include "core/file.h"

namespace racache {

struct Engine;

class Evictor {
 public:
  // Makes room until `pages` are free, or gives up. Signals blocked, no lock
  // held, outside any section. Returns whether it succeeded.
  bool reclaim(Engine& engine, uint64_t pages);
  // A folio already unpublished: its memory is reused after a grace period.
  void retire(Engine& engine, FolioId folio);
  // Unpublishes every folio of the file that is not being filled.
  void drop(Engine& engine, File& file, PageIndex first, PageIndex end);
  // Frees what has passed its grace period.
  void sweep(Engine& engine);

 private:
  struct Limbo {
    FolioId head = kNoFolio;
    epoch::Stamp stamp = 0;
    uint32_t count = 0;
  };
  bool evict_some(Engine& engine, uint64_t pages);
  bool try_evict(Engine& engine, FolioId id, uint64_t* pages);
  void push(Engine& engine, FolioId id);
  void release_all(Engine& engine, Limbo& limbo);
  bool flush(Engine& engine, uint64_t timeout_ns);

  Lock lock_;        // one reclaimer at a time; guards hand_
  Lock limbo_lock_;  // innermost but for the arena's
  Limbo open_;       // collecting
  Limbo closed_;     // stamped, waiting
  FolioId hand_ = 1;
};

}  // namespace racache
