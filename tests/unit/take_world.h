// SPDX-License-Identifier: MIT
// Two page frames, of which one after the other is emptied by moving what it
// holds into the other (Evictor::take, as empty_block calls it), with readers
// who fill and read meanwhile and a writer who has the file dropped and changes
// it: a world for explorer.h. The order of the steps is that of
// core/evict_take.cc, cache.cc, fill_batch.cc and service.cc.
#pragma once

#include <algorithm>
#include <iterator>

#include "core/folio.h"

namespace racache::take_world {

constexpr int kFrames = 2, kPages = 2, kReaders = 2;
constexpr uint8_t kTaker = kReaders + 1, kWriter = kReaders + 2;

enum Omit : uint8_t {
  kNothing,
  kSection,     // the frame that is being moved may be used again meanwhile
  kKillResult,  // the copy is published though the frame was not taken
  kGrace,       // the old frame is used again at once
  kLock,        // the copy is published without the file's lock
};

struct Frame {
  uint32_t word;
  uint8_t page, content, is_free, in_hand;
  uint8_t in_limbo, retired, stamp, unused;
};
struct Reader {
  uint8_t at, page, epoch, tries, frame, copying, begun, seen, served, kernel;
};

struct World {
  static constexpr int kThreads = kReaders + 2;
  Frame frames[kFrames];
  uint8_t entry[kPages];  // the index: the frame + 1
  uint8_t lock[kPages];   // each page is of a file of its own
  uint8_t version;        // of page 0
  uint8_t closed;         // the file of page 0: its lease is broken
  uint8_t now, omit;
  uint8_t taker_at, rounds, taker_epoch, from, to, taken_page, killed, copied;
  uint8_t writer_at, unused[3];
  uint32_t taken_word;
  Reader readers[kReaders];

  bool step(int thread) {
    if (thread < kReaders) return read(readers[thread], thread);
    return thread == kReaders ? take() : write();
  }

  const char* wrong() const {
    for (const Reader& r : readers) {
      if (!r.copying) continue;
      const uint8_t content = frames[r.frame].content;
      if (page_of(content) != r.page) return "copied another page";
      if (version_of(content) < r.seen) return "copied what was changed before";
    }
    for (int f = 0; f < kFrames; ++f) {
      if (places(f) > 1) return "a frame in two places";
    }
    return nullptr;
  }
  const char* wrong_end() const {
    for (const Reader& r : readers) {
      if (!r.served && !r.kernel) return "a reader without an answer";
    }
    for (int f = 0; f < kFrames; ++f) {
      if (places(f) != 1) return "a frame lost";
    }
    return lock[0] + lock[1] != 0 ? "a lock held for ever" : nullptr;
  }

  static uint8_t bytes_of(unsigned page, unsigned version) {
    return static_cast<uint8_t>(page << 4 | version << 1 | 1);
  }

 private:
  static uint8_t page_of(uint8_t content) { return content >> 4; }
  static uint8_t version_of(uint8_t content) { return content >> 1 & 7; }
  uint8_t version_now(uint8_t page) const { return page == 0 ? version : 0; }
  bool is_closed(uint8_t page) const { return page == 0 && closed; }
  int places(int f) const {
    const Frame& frame = frames[f];
    return frame.is_free + frame.in_hand + frame.in_limbo +
           (entry[0] == f + 1) + (entry[1] == f + 1);
  }

  // One of Folio's transitions, on a frame's word.
  template <class F>
  static auto transition(Frame& frame, const F& f) {
    Folio folio{};
    folio.word.store(frame.word);
    const auto result = f(folio);
    frame.word = folio.word.load() & ~Folio::kGenerationMask;
    return result;
  }
  bool take_lock(uint8_t page, uint8_t who) {
    if (lock[page] != 0) return false;
    lock[page] = who;
    return true;
  }
  // Another than `but`; kFrames: there is none.
  uint8_t allocate(uint8_t but) {
    for (uint8_t f = 0; f < kFrames; ++f) {
      if (!frames[f].is_free || f == but) continue;
      frames[f].is_free = 0;
      frames[f].in_hand = 1;
      frames[f].word = 0;
      return f;
    }
    return kFrames;
  }

  enum At : uint8_t {
    kEnter,
    kLookUp,
    kLoad,
    kCopy,
    kTouch,
    kLeave,
    kWait,
    kMissLock,
    kMissLook,
    kBegin,
    kInsert,
    kFill,
    kDone = 99
  };
  void give_up(Reader& r) {
    r.kernel = 1;
    r.epoch = r.frame = 0;
    r.at = kDone;
  }

  bool read(Reader& r, int number) {
    switch (r.at) {
      case kEnter:
        if (!r.begun) r.seen = version_now(r.page);
        r.begun = 1;
        r.epoch = now;
        r.at = kLookUp;
        if (is_closed(r.page)) give_up(r);
        return true;
      case kLookUp:
        r.at = entry[r.page] != 0 ? kLoad : kMissLock;
        if (r.at == kMissLock) r.epoch = 0;
        if (r.at == kLoad) r.frame = static_cast<uint8_t>(entry[r.page] - 1);
        return true;
      case kLoad:
        load(r, frames[r.frame].word);
        return true;
      case kCopy:
        r.copying = 1;
        r.at = kTouch;
        return true;
      case kTouch:
        r.copying = 0;
        frames[r.frame].word |= Folio::kAgain;
        r.at = kLeave;
        return true;
      case kLeave:
        r.epoch = r.frame = 0;
        r.served = 1;
        r.at = kDone;
        return true;
      case kWait:
        if ((frames[r.frame].word & Folio::kFilling) != 0) return false;
        r.frame = 0;
        r.at = kEnter;
        return true;
      default:
        return miss(r, static_cast<uint8_t>(number + 1));
    }
  }
  void load(Reader& r, uint32_t word) {
    r.at = (word & Folio::kUptodate) != 0  ? kCopy
           : (word & Folio::kFilling) != 0 ? kWait
                                           : kMissLock;
    if (r.at != kCopy) r.epoch = 0;
  }

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
        look_again(r);
        return true;
      case kBegin:
        frames[r.frame].page = r.page;
        transition(frames[r.frame], [&](Folio& f) {
          f.begin_fill(0, r.page, 0, false);
          return 0;
        });
        r.at = kInsert;
        return true;
      case kInsert:
        frames[r.frame].in_hand = 0;
        entry[r.page] = static_cast<uint8_t>(r.frame + 1);
        lock[r.page] = 0;
        r.at = kFill;
        return true;
      case kFill:  // the device's part, too
        frames[r.frame].content = bytes_of(r.page, version_now(r.page));
        transition(frames[r.frame], [](Folio& f) { return f.end_fill(true); });
        r.frame = 0;
        r.at = kEnter;
        return true;
      default:
        return false;
    }
  }
  void look_again(Reader& r) {
    if (entry[r.page] != 0) {
      r.at = kEnter;
    } else if (is_closed(r.page)) {
      give_up(r);
    } else if (const uint8_t f = allocate(kFrames); f != kFrames) {
      r.frame = f;
      r.at = kBegin;
      return;  // with the lock
    } else {
      give_up(r);
    }
    lock[r.page] = 0;
  }

  // Each frame in turn is to come free.
  bool take() {
    constexpr int kRounds = 3;
    if (rounds == kRounds) return false;
    Frame& frame = frames[from];
    switch (taker_at) {
      case 0:
        if (omit != kSection) taker_epoch = now;
        taker_at = 1;
        return true;
      case 1:
        taken_word = frame.word;
        taken_page = frame.page;
        taker_at = Folio::alive(frame.word) ? 2 : 11;
        return true;
      case 2:
        to = allocate(from);
        taker_at = to == kFrames ? 11 : 3;
        return true;
      case 3:
        copied = frame.content;
        taker_at = 4;
        return true;
      case 4:
        frames[to].content = copied;
        frames[to].page = taken_page;
        transition(frames[to], [&](Folio& f) {
          f.begin_full(0, taken_page, 0, Folio::kMain);
          return 0;
        });
        taker_at = 5;
        return true;
      default:
        return swap(frame);
    }
  }
  // From the lock to the limbo.
  bool swap(Frame& frame) {
    switch (taker_at) {
      case 5:
        taker_at = omit == kLock || take_lock(taken_page, kTaker) ? 6 : 10;
        return true;
      case 6:
        killed = entry[taken_page] == from + 1 && kill(frame);
        taker_at = killed || omit == kKillResult ? 7 : 9;
        return true;
      case 7:
        entry[taken_page] = 0;
        frame.in_limbo |= killed;
        taker_at = 8;
        return true;
      case 8:
        if (entry[taken_page] == 0) {
          entry[taken_page] = static_cast<uint8_t>(to + 1);
          frames[to].in_hand = 0;
        }
        taker_at = 9;
        return true;
      case 9:
        if (omit != kLock) lock[taken_page] = 0;
        taker_at = 10;
        return true;
      case 10:
        if (frames[to].in_hand) {
          transition(frames[to], [](Folio& f) { return f.abandon_fill(); });
          frames[to].in_hand = 0;
          frames[to].is_free = 1;
        }
        taker_at = 11;
        return true;
      case 11:
        taker_epoch = 0;
        collect();
        taker_at = 12;
        return true;
      default:
        release();
        next_round();
        return true;
    }
  }
  bool kill(Frame& frame) const {
    const bool again = (taken_word & Folio::kAgain) != 0;
    return transition(
        frame, [&](Folio& f) { return again ? f.kill() : f.try_kill(); });
  }
  void next_round() {
    ++rounds;
    from = rounds % kFrames;
    taker_at = to = taken_page = killed = copied = 0;
    taken_word = 0;
  }

  bool passed(uint8_t stamp) const {
    if (taker_epoch != 0 && taker_epoch <= stamp) return false;
    return std::all_of(
        std::begin(readers), std::end(readers),
        [&](const Reader& r) { return r.epoch == 0 || r.epoch > stamp; });
  }
  // flush(): the stamp, and after the grace period the memory.
  void collect() {
    for (Frame& f : frames) {
      if (!f.in_limbo || f.retired) continue;
      f.stamp = now++;
      f.retired = 1;
    }
  }
  void release() {
    for (Frame& f : frames) {
      if (!f.in_limbo || (omit != kGrace && !(f.retired && passed(f.stamp)))) {
        continue;
      }
      f.in_limbo = f.retired = f.stamp = f.content = f.page = 0;
      f.word = 0;
      f.is_free = 1;
    }
  }

  // The lease of page 0's file breaks: dropped, let go of, changed, and adopted
  // again.
  bool write() {
    switch (writer_at) {
      case 0:
        closed = 1;
        break;
      case 1:
        if (!take_lock(0, kWriter)) return false;
        break;
      case 2:
        if (entry[0] != 0 && !drop(frames[entry[0] - 1])) return false;
        break;
      case 3:
        lock[0] = 0;
        break;
      case 4:
        ++version;
        break;
      case 5:
        collect();
        break;
      case 6:
        release();
        break;
      case 7:
        closed = 0;
        break;
      default:
        return false;
    }
    ++writer_at;
    return true;
  }
  // What is being filled is waited for.
  bool drop(Frame& frame) {
    if (!transition(frame, [](Folio& f) { return f.kill(); })) return false;
    entry[0] = 0;
    frame.in_limbo = 1;
    return true;
  }
};

}  // namespace racache::take_world
