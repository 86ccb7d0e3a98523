// SPDX-License-Identifier: MIT
// Whether a waiter polls before it sleeps, how, and for how long. Pure but for
// the averages it keeps.
//
// Waking a sleeping thread, on an idle core of a virtual machine above all, can
// take longer than the read it waits for; keeping awake can hold up whoever
// does the reading. So there are three ways to wait:
// - sleeping: the core is free;
// - spinning, only while a core is left for the others;
// - yielding the core between two looks: whoever can run then runs, and nobody
//   has to be woken up.
// With as many waiters as cores, yielding is best as long as waits are short.
// With fewer, it depends on machine and device, and is learnt: waits for small,
// middling and large folios go in runs of one way each, since one way spoils
// the first waits of the next. Polling must be clearly better to be chosen.
// Nobody spins for a while after a spinning thread lost its core to someone who
// needed it.
#pragma once

#include <atomic>

#include "core/base.h"

namespace racache {

class PollPolicy {
 public:
  enum class Way : uint8_t { kSleep, kSpin, kYield };
  static constexpr unsigned kWays = 3;
  struct Choice {
    Way way;
    uint64_t ns;  // at most, before sleeping all the same
    uint8_t row;  // for learn()
    bool counts;
  };
  static constexpr uint64_t kMostNs = 200'000;
  static constexpr uint64_t kLostCoreNs = 100'000;  // between two looks
  static constexpr uint64_t kBackOffNs = 10'000'000;
  static constexpr unsigned kRun = 64;      // waits
  static constexpr unsigned kWarmUp = 24;   // of a run: not counted
  static constexpr unsigned kExplore = 16;  // one run in so many tries others
  static constexpr unsigned kClasses = 3;

  // `configured`: RACACHE_POLL_US, negative for auto; `cores`: that the process
  // may use.
  void init(int64_t configured, unsigned cores) {
    configured_ = configured;
    cores_ = cores;
  }

  // `waiters` includes the asker.
  Choice choose(unsigned order, unsigned waiters, uint64_t now) {
    const bool crowded = waiters >= cores_;
    const uint8_t row =
        static_cast<uint8_t>(class_of(order) + (crowded ? kClasses : 0));
    if (configured_ == 0 || (configured_ < 0 && cores_ < 2)) {
      return {Way::kSleep, 0, row, false};
    }
    if (configured_ > 0) {
      return {crowded ? Way::kYield : Way::kSpin,
              static_cast<uint64_t>(configured_) * 1000, row, false};
    }
    Row& r = rows_[row];
    const uint32_t n = r.picks.fetch_add(1, std::memory_order_relaxed);
    if (n % kRun == 0) r.way.store(next_run(r, n, crowded), kRelaxed);
    Way way = r.way.load(kRelaxed);
    if (way == Way::kSpin && now < back_off_until_.load(kRelaxed)) {
      way = Way::kSleep;
    }
    const bool counts = n % kRun >= kWarmUp && way == r.way.load(kRelaxed);
    return {way, way == Way::kSleep ? 0 : kMostNs, row, counts};
  }

  // The wait took so long.
  void learn(const Choice& choice, uint64_t ns) {
    if (!choice.counts) return;
    Row& r = rows_[choice.row];
    r.sum.fetch_add(ns < kCeilingNs ? ns : kCeilingNs, kRelaxed);
    r.samples.fetch_add(1, kRelaxed);
  }
  // A spinning thread did not run for a while.
  void lost_core(uint64_t now) {
    back_off_until_.store(now + kBackOffNs, std::memory_order_relaxed);
  }

 private:
  static constexpr uint64_t kCeilingNs = 10'000'000;
  static constexpr uint64_t kShort = kMostNs / 4 * 3;

  // Relaxed, all of them: estimates, they order nothing; where threads mix up
  // their runs, an average is a little off.
  struct Row {
    std::atomic<uint32_t> average[kWays] = {};  // ns by way; 0: not tried yet
    std::atomic<uint32_t> picks{0};
    std::atomic<Way> way{Way::kSleep};  // of this run
    std::atomic<uint64_t> sum{0};       // ns, of this run
    std::atomic<uint32_t> samples{0};
  };

  // Waits for large folios last longer.
  static unsigned class_of(unsigned order) {
    return order <= 2 ? 0 : order <= 5 ? 1 : 2;  // 16 KiB, 128 KiB
  }
  static uint32_t average(const Row& row, Way way) {
    return row.average[static_cast<size_t>(way)].load(kRelaxed);
  }

  // A run's mean counts as much as all before it.
  static void end_run(Row& row) {
    const uint32_t samples = row.samples.exchange(0, kRelaxed);
    const uint64_t sum = row.sum.exchange(0, kRelaxed);
    if (samples < kRun / 4) return;
    const uint32_t mean = static_cast<uint32_t>(sum / samples) | 1;
    const Way way = row.way.load(kRelaxed);
    const uint32_t old = average(row, way);
    row.average[static_cast<size_t>(way)].store(
        old == 0 ? mean : old / 2 + mean / 2 + 1, kRelaxed);
  }

  static Way next_run(Row& row, uint32_t n, bool crowded) {
    end_run(row);
    const uint32_t run = n / kRun;
    // Where waits are long whatever one does, trying costs a core.
    const bool long_waits = average(row, Way::kSleep) > 2 * kMostNs;
    const bool explore = run % (long_waits ? 8 * kExplore : kExplore) == 0;
    if (crowded) {
      return explore || average(row, Way::kYield) < kShort ? Way::kYield
                                                           : Way::kSleep;
    }
    for (unsigned i = 0; i < kWays; ++i) {
      if (row.average[i].load(kRelaxed) == 0) return static_cast<Way>(i);
    }
    if (explore) return static_cast<Way>(run / kExplore % kWays);
    return best(row);
  }
  static Way best(const Row& row) {
    const uint32_t spun = average(row, Way::kSpin);
    const uint32_t yielded = average(row, Way::kYield);
    const uint32_t polled = spun < yielded ? spun : yielded;
    if (polled + polled / 4 >= average(row, Way::kSleep)) return Way::kSleep;
    return spun < yielded ? Way::kSpin : Way::kYield;
  }

  int64_t configured_ = -1;
  unsigned cores_ = 1;
  Row rows_[2 * kClasses];
  std::atomic<uint64_t> back_off_until_{0};
};

}  // namespace racache
