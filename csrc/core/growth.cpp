#include "core/growth.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "core/survivors.h"

namespace leakguard {
namespace {

// Whether live blocks rose by what was born since about `step`.
bool rose(uint32_t group, const Survivors& survivors, uint32_t step, uint32_t newest, const StepHistory& history) {
  const std::optional<uint32_t> reference = history.nearest(step);
  const uint32_t since = reference.value_or(0);
  const int64_t before = reference ? history.countAt(since, group).blocks : 0;
  const int64_t change = history.countAt(newest, group).blocks - before;
  const int64_t born = blocksBornAfter(survivors, since);
  return born > 0 && change * 2 >= born;
}

std::optional<Evidence> judgeSurvivors(
    uint32_t group,
    const Survivors& survivors,
    uint32_t newest,
    const StepHistory& history) {
  if (survivors.birthSteps < Growth::kFirm) {
    return std::nullopt;
  }
  const uint32_t to = newest - Growth::kTail;
  const double spacing = (survivors.last - survivors.first) / (survivors.birthSteps - 1.0);
  // Births at even distances are over after one more of them; those of chance may well keep away for longer.
  const double longest = longestDistance(survivors.windows);
  const double usual = std::max(longest, std::min(3 * spacing, longest + spacing) + 2);
  if (to - survivors.last > usual || !spread(survivors, to)) {
    return std::nullopt;
  }

  // The latest four births, or a quarter of all when that is more.
  const uint32_t enough = std::max<uint32_t>(4, survivors.birthSteps / 4);
  uint32_t counted = 0;
  uint32_t recent = survivors.last;
  for (auto window = survivors.windows.rbegin(); window != survivors.windows.rend() && counted < enough; ++window) {
    counted += window->birthSteps;
    recent = window->first;
  }
  const uint32_t middle = survivors.first + (to - survivors.first) / 2;
  if (!rose(group, survivors, recent - 1, newest, history) || !rose(group, survivors, middle, newest, history)) {
    return std::nullopt;
  }

  const LiveCount live = history.countAt(newest, group);
  const Tide tide = history.tide(group);
  // A population that wavers comes near its highest now and then; one that grows leaves it behind.
  if (newest - tide.peakAt > std::max(usual, (to - survivors.first) / 8.0) + Growth::kTail) {
    return std::nullopt;
  }
  const bool pastFormer = live.blocks > tide.formerPeak + tide.formerPeak / 4;
  if (tide.formerPeak > 0 && !pastFormer && newest - tide.rising <= 2 * tide.formerLength) {
    return std::nullopt;
  }

  Evidence evidence;
  evidence.group = group;
  evidence.firstStep = survivors.first;
  evidence.lastStep = survivors.last;
  evidence.birthSteps = survivors.birthSteps;
  evidence.live = live;
  const double length = to - survivors.first + 1.0;
  evidence.bytesPerStep = static_cast<double>(survivors.bytes) / length;
  evidence.blocksPerStep = static_cast<double>(survivors.blocks) / length;
  evidence.seenAt = newest;
  return evidence;
}

// By the births after the latest long pause, or by all, whichever is the better measure.
std::optional<Evidence> judgePhases(uint32_t group, const Survivors& all, uint32_t newest, const StepHistory& history) {
  const std::span<const BirthWindow> born = all.windows;
  const size_t split = latestPhase(born, Growth::kFirm);
  if (split == 0) {
    return judgeSurvivors(group, all, newest, history);
  }
  const Survivors phase = sumOf({born.begin() + static_cast<std::ptrdiff_t>(split), born.end()});
  // A pause like one before it is the rhythm of the births, and the whole is the better measure.
  const uint32_t pause = born[split].first - born[split - 1].last;
  const bool rhythm = 2 * longestDistance(born.first(split)) >= pause;
  const Survivors& better = rhythm ? all : phase;
  const Survivors& other = rhythm ? phase : all;
  std::optional<Evidence> evidence = judgeSurvivors(group, better, newest, history);
  return evidence ? evidence : judgeSurvivors(group, other, newest, history);
}

} // namespace

std::optional<Evidence> Growth::judge(
    uint32_t group,
    std::span<const BirthWindow> windows,
    const StepHistory& history,
    const Evidence* known) {
  const uint32_t steps = history.steps();
  const uint32_t from = history.base() + kWarmup;
  if (steps < from + kFirm + kTail) {
    return std::nullopt;
  }
  const uint32_t newest = steps - 1;
  const Survivors all = countable(windows, from, newest - kTail, history.countAt(from - 1, group));
  std::optional<Evidence> evidence = judgePhases(group, all, newest, history);
  if (!evidence) {
    return evidence;
  }
  if (known != nullptr && known->firstStep > evidence->firstStep) {
    const bool merged = std::any_of(all.windows.begin(), all.windows.end(), [&](const BirthWindow& window) {
      return window.first == evidence->firstStep && window.last >= known->firstStep;
    });
    if (merged) { // with births from before the growth, by which they cannot be told apart any more
      const Survivors since = countable(windows, known->firstStep, newest - kTail, known->older);
      if (std::optional<Evidence> same = judgeSurvivors(group, since, newest, history)) {
        same->older = known->older;
        return same;
      }
    }
  }
  evidence->older = evidence->live;
  for (const BirthWindow& window : windows) {
    if (window.first >= evidence->firstStep) {
      evidence->older.blocks -= window.blocks;
      evidence->older.bytes -= window.bytes;
    }
  }
  return evidence;
}

std::optional<Evidence> Growth::judgeSwelling(uint32_t group, const StepHistory& history) {
  const uint32_t from = history.base() + kWarmup;
  std::vector<std::pair<uint32_t, LiveCount>> counts = history.countsSince(from, group);
  counts.erase(counts.begin(), std::find_if(counts.begin(), counts.end(), [](const auto& count) {
                 return count.second.blocks > 0;
               }));
  if (counts.size() < kFirm + kTail) {
    return std::nullopt;
  }
  const auto [begin, first] = counts.front();
  const auto [newest, live] = counts.back();
  const double length = newest - begin;
  std::array<uint32_t, 4> rises{};
  uint32_t lastRise = begin;
  uint32_t longest = 0; // steps between two rises
  for (size_t i = 1; i < counts.size(); ++i) {
    const auto& [step, now] = counts[i];
    const LiveCount& before = counts[i - 1].second;
    if (now.bytes < before.bytes || now.blocks != live.blocks) {
      return std::nullopt;
    }
    if (now.bytes > before.bytes) {
      ++rises[static_cast<size_t>((step - begin - 1) / length * 4)];
      longest = std::max(longest, step - lastRise);
      lastRise = step;
    }
  }
  const uint32_t all = rises[0] + rises[1] + rises[2] + rises[3];
  const int64_t rise = live.bytes - first.bytes;
  const int64_t late = live.bytes - history.countAt(begin + (newest - begin) / 2, group).bytes;
  if (all < kFirm || rises[1] == 0 || rises[2] == 0 || rises[3] == 0 || newest - lastRise > longest ||
      late * 10 < rise * 3) {
    return std::nullopt;
  }
  Evidence evidence;
  evidence.group = group;
  evidence.firstStep = begin;
  evidence.lastStep = lastRise;
  evidence.birthSteps = all;
  evidence.live = live;
  evidence.bytesPerStep = static_cast<double>(rise) / length;
  evidence.seenAt = newest;
  return evidence;
}

std::vector<Evidence> Growth::lookForSwelling(const std::vector<Evidence>& growing) const {
  std::vector<Evidence> found;
  constexpr uint32_t kWhile = 32; // steps in which a group that swells has more than it had
  const uint32_t steps = history_.steps();
  const uint32_t from = history_.base() + kWarmup;
  if (steps < from + kFirm + kTail) {
    return found;
  }
  for (const uint32_t group : history_.groupsWithMoreBytes(std::max(from, steps > kWhile ? steps - kWhile : 0))) {
    const bool known =
        std::any_of(growing.begin(), growing.end(), [&](const Evidence& other) { return other.group == group; });
    if (known) {
      continue;
    }
    if (std::optional<Evidence> evidence = judgeSwelling(group, history_)) {
      const Evidence* known = knownOf(group); // the mark that saw the first step may have been dropped
      if (known != nullptr && known->firstStep >= from) {
        evidence->firstStep = std::min(evidence->firstStep, known->firstStep);
      }
      found.push_back(*evidence);
    }
  }
  return found;
}

std::vector<Evidence> Growth::look() const {
  std::vector<Evidence> found;
  const uint32_t steps = history_.steps();
  if (steps == history_.base()) {
    return found;
  }
  for (const uint32_t group : history_.groupsOf(steps - 1, int64_t{kFirm})) { // most have next to nothing alive
    const std::vector<BirthWindow> windows = groups_.windows(group);
    if (std::optional<Evidence> evidence = judge(group, windows, history_, knownOf(group))) {
      found.push_back(*evidence);
    }
  }
  return found;
}

const Evidence* Growth::knownOf(uint32_t group) const {
  const auto found = known_.find(group);
  return found != known_.end() ? &found->second : nullptr;
}

uint32_t Growth::observe() {
  const uint32_t steps = history_.steps();
  const uint32_t base = history_.base(); // what counts is how long this watch has looked, not what was before it
  const auto passed = [base](uint32_t step) { return step > base ? step - base : 0; };
  const std::lock_guard guard(mutex_);
  const uint32_t pause = std::clamp<uint32_t>(passed(lookedAt_) / 16, 1, 16);
  if (steps < lookedAt_ + pause) {
    return 0;
  }
  lookedAt_ = steps;
  std::vector<Evidence> found = look();
  if (steps >= lookedForSwellingAt_ + std::max<uint32_t>(kFirm, passed(lookedForSwellingAt_) / 8)) {
    lookedForSwellingAt_ = steps;
    swelling_ = lookForSwelling(found);
  }
  for (const Evidence& swelling : swelling_) {
    const bool known =
        std::any_of(found.begin(), found.end(), [&](const Evidence& other) { return other.group == swelling.group; });
    if (!known) {
      found.push_back(swelling);
    }
  }
  uint32_t fresh = 0;
  for (const Evidence& evidence : found) {
    const bool known =
        std::any_of(last_.begin(), last_.end(), [&](const Evidence& old) { return old.group == evidence.group; });
    fresh += known ? 0 : 1;
    known_[evidence.group] = evidence;
  }
  last_ = std::move(found);
  return fresh;
}

std::vector<uint32_t> Growth::growing() const {
  const std::lock_guard guard(mutex_);
  std::vector<uint32_t> groups;
  groups.reserve(last_.size());
  for (const Evidence& evidence : last_) {
    groups.push_back(evidence.group);
  }
  return groups;
}

bool Growth::anyGrowing() const {
  const std::lock_guard guard(mutex_);
  return !last_.empty();
}

std::vector<Evidence> Growth::evidence() const {
  const std::lock_guard guard(mutex_);
  std::vector<Evidence> found = look();
  const std::vector<Evidence> swelling = lookForSwelling(found);
  found.insert(found.end(), swelling.begin(), swelling.end());
  const uint32_t steps = history_.steps();
  for (const Evidence& old : last_) {
    const bool again =
        std::any_of(found.begin(), found.end(), [&](const Evidence& now) { return now.group == old.group; });
    // Seen at the last look, and still there at the last mark: what died since was not let go of by the loop. What was
    // seen before a better source of steps took over counts by other steps.
    if (!again && old.firstStep >= history_.base() && steps > history_.base() &&
        history_.countAt(steps - 1, old.group).blocks * 4 >= old.live.blocks * 3 &&
        (old.blocksPerStep > 0 || history_.countAt(steps - 1, old.group).bytes == old.live.bytes)) {
      found.push_back(old);
    }
  }
  return found;
}

} // namespace leakguard
