// SPDX-License-Identifier: MIT
// Exhaustive exploration of a small concurrent world: every interleaving of its
// threads' steps, each state visited once. A world is a plain value with
//
//   static constexpr int kThreads;
//   bool step(int thread);          one atomic step; false: blocked or finished
//   const char* wrong() const;      an invariant broken, or null
//   const char* wrong_end() const;  the same where no thread can go on
//
// The worlds are sequentially consistent but for what they model themselves (a
// store buffer, for one).
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <type_traits>
#include <vector>

namespace racache {

// States met, by 128 bits of hash: that two of a few million share one is less
// likely than a failure of the machine. A table with open addressing.
class StatesMet {
 public:
  // Whether the state is new.
  bool insert(XXH128_hash_t hash) {
    hash.low64 |= 1;  // zero is an empty place
    if (2 * count_ > table_.size()) grow();
    const bool is_new = place(hash);
    count_ += is_new;
    return is_new;
  }

 private:
  bool place(XXH128_hash_t hash) {
    const size_t mask = table_.size() - 1;
    for (size_t at = hash.high64 & mask;; at = (at + 1) & mask) {
      if (table_[at].low64 == 0) {
        table_[at] = hash;
        return true;
      }
      if (XXH128_isEqual(table_[at], hash)) return false;
    }
  }
  void grow() {
    std::vector<XXH128_hash_t> old(4 * table_.size());
    old.swap(table_);
    for (const XXH128_hash_t& hash : old) {
      if (hash.low64 != 0) place(hash);
    }
  }
  std::vector<XXH128_hash_t> table_ = std::vector<XXH128_hash_t>(1 << 16);
  size_t count_ = 0;
};

struct Exploration {
  size_t states = 0;
  size_t ends = 0;
  const char* wrong = nullptr;  // the first violation
};

template <class World, class Visit>
Exploration explore(const World& first, const Visit& visit_end) {
  static_assert(std::has_unique_object_representations_v<World>);
  Exploration result;
  StatesMet met;
  std::vector<World> open;
  const auto push = [&](const World& world) {
    const XXH128_hash_t hash = XXH3_128bits(&world, sizeof world);
    if (met.insert(hash)) open.push_back(world);
  };
  push(first);
  while (!open.empty() && result.wrong == nullptr) {
    const World world = open.back();
    open.pop_back();
    ++result.states;
    result.wrong = world.wrong();
    bool stuck = true;
    for (int thread = 0; thread < World::kThreads; ++thread) {
      World next = world;
      if (!next.step(thread)) continue;
      stuck = false;
      push(next);
    }
    if (!stuck || result.wrong != nullptr) continue;
    ++result.ends;
    result.wrong = world.wrong_end();
    visit_end(world);
  }
  return result;
}

}  // namespace racache
