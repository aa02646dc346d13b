#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/birth_windows.h"
#include "core/step_history.h"
#include "core/visibility.h"

namespace leakguard {

// Why a group is called growing: its survivors were born evenly over the run and are still being added.
struct Evidence {
  uint32_t group = 0;
  uint32_t firstStep = 0; // births of the survivors that count
  uint32_t lastStep = 0;
  uint32_t birthSteps = 0; // distinct steps in which survivors were born
  LiveCount live; // all live blocks of the group
  LiveCount older; // those of them that were born before firstStep
  double bytesPerStep = 0; // steady rate between firstStep and the step it was seen at
  double blocksPerStep = 0;
  uint32_t seenAt = 0; // the step whose mark it was judged at
};

// Judges one group at a mark. No warm-up but two steps, no threshold in bytes:
//  - survivors born in at least `kFirm` distinct steps, in all of the last three quarters of their time, the last not
//    longer ago than their distances explain (a cache that has warmed up, a phase that is over: no);
//  - the live blocks rose by what was born, over the last births and over half of the time (a ring that replaces its
//    oldest: no);
//  - not below what the group has reached before and let go of (a buffer that is emptied every epoch: no), and at its
//    highest lately (a list that is trimmed now and then: no).
// A line may have filled a cache long before it begins to leak: births after a pause of at least four times the longest
// distance between them are judged by themselves too, and first when there was no such pause before.
// Births of the last two steps do not count: they may be in flight.
// The first step of a growth is kept from when it was firm first: in a long run its births are merged with births from
// before it. `known` is what was found before, null for nothing.
//
// A block that is replaced by a larger one each time leaves one survivor only; `judgeSwelling` looks at the bytes of a
// group whose number of blocks stays as it is: they never fell, and rose at least `kFirm` times, in each quarter of the
// time. A batch that is made larger by plan looks the same, so this is a suspicion: `blocksPerStep` is 0 there, and who
// reports it must know that the old block went into the new one.
class LEAKGUARD_API Growth {
 public:
  static constexpr uint32_t kWarmup = 2;
  static constexpr uint32_t kTail = 2;
  static constexpr uint32_t kFirm = 8;

  static std::optional<Evidence> judge(
      uint32_t group,
      std::span<const BirthWindow> windows,
      const StepHistory& history,
      const Evidence* known = nullptr);
  static std::optional<Evidence> judgeSwelling(uint32_t group, const StepHistory& history);

  Growth(const SiteGroups& groups, const StepHistory& history) : groups_(groups), history_(history) {}

  // Call after each mark. Judges every step at first, then less often, at the latest every 16th; returns how many
  // groups are growing that were not at the last look.
  uint32_t observe();
  // Groups that were growing at the last look. Cheap.
  std::vector<uint32_t> growing() const;
  bool anyGrowing() const;
  // What is growing now. Call between marks: a group that shrank since the last mark (a function has returned and its
  // locals died) keeps what was seen at the last look.
  std::vector<Evidence> evidence() const;

 private:
  std::vector<Evidence> look() const;
  std::vector<Evidence> lookForSwelling(const std::vector<Evidence>& growing) const;
  const Evidence* knownOf(uint32_t group) const;

  const SiteGroups& groups_;
  const StepHistory& history_;
  mutable std::mutex mutex_;
  std::vector<Evidence> last_;
  std::vector<Evidence> swelling_; // part of last_
  std::unordered_map<uint32_t, Evidence> known_; // the latest for each group that was ever growing
  uint32_t lookedAt_ = 0; // steps at the last look
  uint32_t lookedForSwellingAt_ = 0;
};

} // namespace leakguard
