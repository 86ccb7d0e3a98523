// SPDX-License-Identifier: MIT
// Evicting: takes the folios that the policy names out of their files' indexes,
// and keeps the limbo where dead folios wait for their grace period.
//
// A folio of which a part is to stay is copied in parts: the rest of its memory
// comes free as a whole, and no reader has to know. So does what is hot in a
// block that is wanted as a whole.
#pragma once

#include "core/arena.h"
#include "core/epoch.h"
#include "core/eviction_policy.h"
#include "core/file.h"

namespace racache {

struct Engine;

class Evictor {
 public:
  EvictionPolicy& policy() { return policy_; }
  const EvictionPolicy& policy() const { return policy_; }

  // Makes room until `pages` are free, or gives up. Signals blocked, no lock
  // held, outside any section. Returns whether it succeeded.
  bool reclaim(Engine& engine, uint64_t pages);
  // Makes one free run of 2^order pages, by emptying the 2 MiB block that costs
  // least. Called as reclaim() is.
  bool make_run(Engine& engine, unsigned order);
  // Gives memory back to the kernel, the least wanted first, until no more is
  // held than the arena's limit, or as far as that goes now. Called as
  // reclaim() is.
  void shrink(Engine& engine);
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
    bool in_vain = false;  // its grace was waited for, and did not come
  };
  bool evict_some(Engine& engine, uint64_t pages);
  bool take(Engine& engine, const Victim& victim, uint64_t* freed);
  bool kill(File& file, FolioId id, PageIndex first, uint32_t word);
  FolioId cheapest_block(Engine& engine);
  bool empty_block(Engine& engine, FolioId head);
  void push(Engine& engine, FolioId id);
  void release_all(Engine& engine, Limbo& limbo);
  bool flush(Engine& engine, uint64_t timeout_ns);
  bool settle(Engine& engine);
  bool stuck(Engine& engine);

  EvictionPolicy policy_;
  Lock lock_;        // one reclaimer at a time; guards block_hand_
  Lock limbo_lock_;  // innermost but for the arena's
  Limbo open_;       // collecting
  Limbo closed_;     // stamped, waiting
  uint64_t block_hand_ = 0;
};

}  // namespace racache
