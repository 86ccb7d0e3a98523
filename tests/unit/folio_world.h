// SPDX-License-Identifier: MIT
// One page frame, two files of one page each, and all who deal with them, as a
// world for explorer.h. The transitions are those of core/folio.h; the order in
// which they, the index, the lock and the grace period are used is that of
// core/cache.cc, fill_batch.cc, fill_op.cc, evict.cc and wait_list.cc.
#pragma once

#include <algorithm>
#include <iterator>

#include "core/folio.h"

namespace racache::folio_world {

constexpr int kPages = 2, kReaders = 2;
constexpr uint8_t kDevice = kReaders + 1, kEvictor = kReaders + 2,
                  kDropper = kReaders + 3;

enum Omit : uint8_t {
  kNothing,
  kGrace,        // limbo is left at once
  kReload,       // a waiter sleeps without having announced itself
  kIndexCheck,   // the evictor believes the frame without asking the index
  kWakeFailure,  // a failed fill wakes nobody
};

struct Reader {
  uint8_t at, page, epoch, tries, asleep, copying, served, kernel;
  uint32_t word;  // as loaded
};

struct World {
  static constexpr int kThreads = kReaders + 3;
  // The frame's folio, and what lies in its memory (page + 1).
  uint32_t word, index, generation;
  uint8_t content, is_free, in_limbo, retired, stamp;
  uint8_t entry[kPages];  // the index: 1: the frame
  uint8_t lock[kPages];   // each page is of a file of its own
  uint8_t now;
  uint8_t pending, failures;  // device: page + 1; reads that will fail
  uint8_t device_at, evictor_at, evictor_page, rounds;
  uint8_t marks_set, marks_taken, omit;
  uint8_t drop_at;  // 99: no one drops
  Reader readers[kReaders];

  bool step(int thread) {
    if (thread < kReaders) return read(readers[thread], thread);
    if (thread == kReaders) return complete();
    return thread == kReaders + 1 ? evict() : drop();
  }

  const char* wrong() const {
    for (const Reader& r : readers) {
      if (r.copying && content != r.page + 1) return "copied another page";
    }
    if (is_free + in_limbo + entry[0] + entry[1] > 1) {
      return "a frame in two places";
    }
    if (marks_taken > marks_set) return "a mark taken twice";
    if (is_free && (word & Folio::kFilling)) return "free and being filled";
    return nullptr;
  }
  const char* wrong_end() const {
    for (const Reader& r : readers) {
      if (r.asleep) return "a sleeper that nobody wakes";
      if (!r.served && !r.kernel) return "a reader without an answer";
    }
    if (is_free + in_limbo + entry[0] + entry[1] != 1) return "a frame lost";
    return lock[0] + lock[1] != 0 ? "a lock held for ever" : nullptr;
  }

 private:
  // One of Folio's transitions, on this world's word.
  template <class F>
  auto transition(const F& f) {
    Folio folio{};
    folio.word.store(word);
    folio.index = index;
    const auto result = f(folio);
    word = folio.word.load();
    index = folio.index;
    return result;
  }
  void wake_all() {
    for (Reader& r : readers) r.asleep = 0;
  }
  bool take_lock(uint8_t page, uint8_t who) {
    if (lock[page] != 0) return false;
    lock[page] = who;
    return true;
  }
  void give_up(Reader& r) {
    r.kernel = 1;
    r.at = 99;
  }

  enum At : uint8_t {
    kEnter,
    kLookUp,
    kLoad,
    kCopy,
    kTouch,
    kLeave,
    kMarkEnter,
    kMarkTake,
    kWaitLoad,
    kWaitAnnounce,
    kWaitSleep,
    kAwake,
    kMissLock,
    kMissLook,
    kAllocate,
    kBegin,
    kInsert,
    kUnlock,
    kDone = 99
  };

  bool read(Reader& r, int number) {
    if (r.asleep) return false;
    const uint8_t me = static_cast<uint8_t>(number + 1);
    switch (r.at) {
      case kEnter:
        r.epoch = now;
        r.at = kLookUp;
        return true;
      case kLookUp:
        r.at = entry[r.page] ? kLoad : kMissLock;
        if (r.at == kMissLock) r.epoch = 0;
        return true;
      case kLoad:
        load(r);
        return true;
      case kCopy:
        r.copying = 1;
        r.at = kTouch;
        return true;
      case kTouch:
        r.copying = 0;
        word |= Folio::kAgain;
        r.at = kLeave;
        return true;
      case kLeave:
        r.epoch = 0;
        r.served = 1;
        r.at = kDone;
        return true;
      case kMarkEnter:
        r.epoch = now;
        r.at = kMarkTake;
        return true;
      case kMarkTake:
        take_mark(r);
        return true;
      default:
        return r.at < kMissLock ? wait(r) : miss(r, me);
    }
  }

  void load(Reader& r) {
    r.word = word;
    if ((word & Folio::kMark) != 0) {
      r.epoch = 0;
      r.at = kMarkEnter;
    } else if ((word & Folio::kUptodate) != 0) {
      r.at = kCopy;
    } else {
      r.epoch = 0;
      r.at = (word & Folio::kFilling) != 0 ? kWaitLoad : kMissLock;
    }
    r.word = 0;
  }
  void take_mark(Reader& r) {
    if (entry[r.page]) {
      marks_taken += transition([](Folio& f) { return f.try_clear_mark(); });
    }
    r.epoch = 0;
    r.at = kEnter;
  }

  // wait_without_reaper(), outside any section: the frame may have changed
  // hands, and what is announced may be announced to its next owner.
  bool wait(Reader& r) {
    switch (r.at) {
      case kWaitLoad:
        r.word = word;
        r.at = (word & Folio::kFilling) != 0 ? kWaitAnnounce : kAwake;
        return true;
      case kWaitAnnounce:
        if (omit != kReload) word |= Folio::kWaiters;
        r.word = word;
        r.at = (word & Folio::kFilling) != 0 ? kWaitSleep : kAwake;
        return true;
      case kWaitSleep:  // the kernel compares and sleeps in one
        r.asleep = word == r.word;
        r.at = kWaitLoad;
        return true;
      default:
        r.word = 0;
        r.at = kEnter;
        return true;
    }
  }

  // An absent page: read by whoever is first; without memory, or after two
  // attempts, it is the kernel's.
  bool miss(Reader& r, uint8_t me) {
    switch (r.at) {
      case kMissLock:
        if (r.tries == 2) {
          give_up(r);
          return true;
        }
        if (!take_lock(r.page, me)) return false;
        r.at = kMissLook;
        return true;
      case kMissLook:
        ++r.tries;
        r.at = entry[r.page] ? kUnlock : kAllocate;
        return true;
      case kAllocate:
        if (!is_free) {
          lock[r.page] = 0;
          give_up(r);
          return true;
        }
        is_free = 0;  // in no place but this thread's hands
        word &= Folio::kGenerationMask;
        r.at = kBegin;
        return true;
      case kBegin:
        begin(r);
        return true;
      case kInsert:
        entry[r.page] = 1;
        pending = static_cast<uint8_t>(r.page + 1);
        r.at = kUnlock;
        return true;
      case kUnlock:
        lock[r.page] = 0;
        r.at = kEnter;
        return true;
      default:
        return false;
    }
  }
  // The first fill carries a mark. Late waiters may write to the word at any
  // time: their bit is lost here, which must not matter.
  void begin(Reader& r) {
    const bool mark = marks_set == 0;
    transition([&](Folio& f) {
      f.begin_fill(0, r.page, 0, mark);
      return 0;
    });
    word = (word & ~Folio::kGenerationMask) |
           (word & Folio::kGenerationOne);  // few generations, few states
    marks_set += mark;
    r.at = kInsert;
  }

  bool complete() {
    switch (device_at) {
      case 0:
        if (pending == 0) return false;
        device_at = failures != 0 ? 2 : 1;
        return true;
      case 1:
        content = pending;
        pending = 0;
        if (transition([](Folio& f) { return f.end_fill(true); })) wake_all();
        device_at = 0;
        return true;
      case 2:
        if (!take_lock(pending - 1, kDevice)) return false;
        entry[pending - 1] = 0;
        device_at = 3;
        return true;
      case 3:
        lock[pending - 1] = 0;
        device_at = 4;
        return true;
      case 4: {
        const bool sleepers =
            transition([](Folio& f) { return f.end_fill(false); });
        if (sleepers && omit != kWakeFailure) wake_all();
        device_at = 5;
        return true;
      }
      default:
        --failures;
        pending = 0;
        in_limbo = 1;
        device_at = 0;
        return true;
    }
  }

  bool passed() const {
    return std::all_of(
        std::begin(readers), std::end(readers),
        [&](const Reader& r) { return r.epoch == 0 || r.epoch > stamp; });
  }

  // The clock hand comes by a few times; each time it also looks at the limbo.
  bool evict() {
    constexpr int kRounds = 3;
    if (rounds == kRounds) return false;
    switch (evictor_at) {
      case 0:
        if ((word & Folio::kUptodate) == 0 || (word & Folio::kDead) != 0) {
          evictor_at = 6;
        } else if ((word & Folio::kAgain) != 0) {
          word &= ~Folio::kAgain;
          evictor_at = 6;
        } else {
          evictor_page = static_cast<uint8_t>(index);  // not locked yet
          evictor_at = 1;
        }
        return true;
      case 1:
        evictor_at = take_lock(evictor_page, kEvictor) ? 2 : 6;
        return true;
      case 2:
        evictor_at = entry[evictor_page] || omit == kIndexCheck ? 3 : 5;
        return true;
      case 3:
        evictor_at = transition([](Folio& f) { return f.try_kill(); }) ? 4 : 5;
        return true;
      case 4:
        entry[evictor_page] = 0;
        in_limbo = 1;
        evictor_at = 5;
        return true;
      case 5:
        lock[evictor_page] = 0;
        evictor_at = 6;
        return true;
      case 6:
        collect();
        evictor_at = 7;
        return true;
      default:
        release();
        evictor_at = evictor_page = 0;
        ++rounds;
        return true;
    }
  }

  // flush(): the stamp, and after the grace period the memory.
  void collect() {
    if (!in_limbo || retired) return;
    stamp = now++;
    retired = 1;
  }
  void release() {
    if (!retired || (!passed() && omit != kGrace)) return;
    word &= Folio::kGenerationMask;
    in_limbo = retired = stamp = 0;
    is_free = 1;
    content = 0;
  }

  // dontneed() of page 0, and its sweep.
  bool drop() {
    switch (drop_at) {
      case 0:
        if (!take_lock(0, kDropper)) return false;
        drop_at = 1;
        return true;
      case 1:
        drop_at = 3;
        if (entry[0] && transition([](Folio& f) { return f.kill(); })) {
          drop_at = 2;
        }
        return true;
      case 2:
        entry[0] = 0;
        in_limbo = 1;
        drop_at = 3;
        return true;
      case 3:
        lock[0] = 0;
        drop_at = 4;
        return true;
      case 4:
        collect();
        drop_at = 5;
        return true;
      case 5:
        release();
        drop_at = 99;
        return true;
      default:
        return false;
    }
  }
};

}  // namespace racache::folio_world
