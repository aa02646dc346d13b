#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/ledger.h"
#include "core/site_groups.h"
#include "core/visibility.h"

namespace leakguard {

// One device over the steps of one mark. Bytes are requested bytes.
struct DeviceStep {
  DeviceKey device = DeviceKey::Cpu;
  int64_t allocated = 0; // at the mark
  int64_t trough = 0;
  int64_t peak = 0;
  int64_t consumed = 0; // born during the steps, whether or not alive
};

// The end of a step. A thinned history has one mark for several steps: firstStep..step.
struct Mark {
  uint32_t firstStep = 0;
  uint32_t step = 0;
  double seconds = 0; // since the first mark
  std::vector<DeviceStep> devices;
  std::vector<LiveCount> counts; // by group
};

// What a group's live blocks have done so far, looked at where steps end.
struct Tide {
  int64_t peak = 0; // most blocks since the last ebb
  uint32_t peakAt = 0; // step that reached it first
  int64_t formerPeak = 0; // highest peak that an ebb followed, 0 = none yet
  uint32_t rising = 0; // step since which no ebb came
  uint32_t formerLength = 0; // steps that the longest such rise took
};

struct GroupChange {
  uint32_t group = 0;
  LiveCount change;
  LiveCount now;
};

// The marks that are kept: the last 64 steps; before them distances that double with age; for ever the very first and
// the first two from the base on, which evidence is measured against. Marking and comparing cost the same after ten
// thousand and ten million events: they look at groups only. Thread-safe; the lock is never held while a ledger lock is
// waited for longer than a copy.
class LEAKGUARD_API StepHistory {
 public:
  // Steps go on from what the ledger has counted, so that blocks of an earlier watch are older than this one's.
  explicit StepHistory(Ledger& ledger);

  // Ends the current step and returns its number.
  uint32_t mark(double seconds);
  uint32_t steps() const noexcept; // number of the step that runs now
  // Steps up to here were marked by a worse source: evidence begins after them.
  void rebase() noexcept;
  uint32_t base() const noexcept;

  // The kept mark at that step, or the nearest one before it.
  std::optional<uint32_t> nearest(uint32_t step) const;
  // Groups whose live counts differ between two kept marks; nullopt for a step without a kept mark (ask nearest first).
  std::optional<std::vector<GroupChange>> diff(uint32_t from, uint32_t to) const;
  LiveCount countAt(uint32_t step, uint32_t group) const; // at the nearest kept mark, 0 before the first
  // Groups that had at least so many blocks at the nearest kept mark, ascending.
  std::vector<uint32_t> groupsOf(uint32_t step, int64_t blocks) const;
  // Groups that have more bytes at the newest mark than at the nearest kept mark at or before that step.
  std::vector<uint32_t> groupsWithMoreBytes(uint32_t step) const;
  // A group's counts at each kept mark from that step on, oldest first.
  std::vector<std::pair<uint32_t, LiveCount>> countsSince(uint32_t step, uint32_t group) const;
  Tide tide(uint32_t group) const;

  // Rows for a table, oldest first, without the counts: of the marks at that step and later.
  std::vector<Mark> rows(uint32_t since = 0) const;
  size_t hostBytes() const;

 private:
  static constexpr uint32_t kRecent = 64;
  static constexpr uint32_t kAtBase = 2;

  struct Kept { // the step stands here too: looking one mark up, or for those to drop, reads no mark
    uint32_t step;
    std::unique_ptr<Mark> mark;
  };

  const Mark* find(uint32_t step) const; // nearest at or before
  void thin();
  void followTides(const Mark& mark);

  Ledger& ledger_;
  mutable std::mutex mutex_;
  std::vector<Kept> marks_;
  std::unique_ptr<Mark> spare_; // a dropped mark's memory serves the next
  std::vector<Tide> tides_;
  uint64_t bornBefore_[kDevices] = {};
  uint32_t steps_ = 0;
  uint32_t base_ = 0;
};

} // namespace leakguard
