#include "core/step_history.h"

#include <algorithm>
#include <bit>
#include <iterator>

namespace leakguard {
namespace {

// Whether a mark of this age stays: about eight to an octave.
bool stays(uint32_t step, uint32_t age, uint32_t recent) noexcept {
  if (age <= recent) {
    return true;
  }
  const uint32_t stride = std::bit_floor(age) / 8; // a power of two, or 0
  return stride == 0 || (step & (stride - 1)) == 0;
}

} // namespace

StepHistory::StepHistory(Ledger& ledger) : ledger_(ledger) {
  steps_ = base_ = ledger.step() == 0 ? 0 : ledger.step() + 1;
  ledger_.setStep(steps_);
  for (int index = 0; index < kDevices; ++index) {
    bornBefore_[index] = ledger.counts(static_cast<DeviceKey>(index)).bornBytes;
    ledger_.takeRange(static_cast<DeviceKey>(index));
  }
}

uint32_t StepHistory::mark(double seconds) {
  const std::lock_guard guard(mutex_);
  std::unique_ptr<Mark> mark = spare_ ? std::move(spare_) : std::make_unique<Mark>();
  mark->step = mark->firstStep = steps_;
  mark->seconds = seconds;
  ledger_.groups().copyCounts(mark->counts);
  mark->devices.clear();
  for (int index = 0; index < kDevices; ++index) {
    const auto device = static_cast<DeviceKey>(index);
    if (!ledger_.seen(device)) {
      continue;
    }
    const DeviceCounts counts = ledger_.counts(device);
    const Ledger::Range range = ledger_.takeRange(device);
    const auto consumed = static_cast<int64_t>(counts.bornBytes - bornBefore_[index]);
    bornBefore_[index] = counts.bornBytes;
    mark->devices.push_back({device, counts.liveBytes, range.trough, range.peak, consumed});
  }
  followTides(*mark);
  marks_.push_back({steps_, std::move(mark)});
  ledger_.setStep(++steps_);
  thin();
  return steps_ - 1;
}

void StepHistory::followTides(const Mark& mark) {
  tides_.resize(mark.counts.size());
  constexpr int64_t kNoise = 4; // blocks in flight come and go
  for (size_t group = 0; group < tides_.size(); ++group) {
    Tide& tide = tides_[group];
    const int64_t blocks = mark.counts[group].blocks;
    if (blocks > tide.peak) {
      tide.peak = blocks;
      tide.peakAt = mark.step;
    } else if (tide.peak > kNoise && blocks * 8 <= tide.peak * 5) { // an ebb: also a list that is trimmed to half
      tide.formerPeak = std::max(tide.formerPeak, tide.peak);
      tide.formerLength = std::max(tide.formerLength, mark.step - tide.rising);
      tide.rising = mark.step;
      tide.peak = blocks;
      tide.peakAt = mark.step;
    }
  }
}

void StepHistory::thin() {
  size_t kept = 0;
  for (size_t i = 0; i < marks_.size(); ++i) {
    const uint32_t step = marks_[i].step;
    const bool atBase = step - base_ < kAtBase; // wraps around for earlier ones
    if (i == 0 || atBase || stays(step, steps_ - step, kRecent)) {
      if (kept != i) {
        marks_[kept] = std::move(marks_[i]);
      }
      ++kept;
      continue;
    }
    std::unique_ptr<Mark>& mark = marks_[i].mark;
    Mark& heir = *marks_[i + 1].mark; // the newest mark always stays, so there is one
    heir.firstStep = mark->firstStep;
    for (DeviceStep& row : heir.devices) {
      for (const DeviceStep& older : mark->devices) {
        if (older.device == row.device) {
          row.trough = std::min(row.trough, older.trough);
          row.peak = std::max(row.peak, older.peak);
          row.consumed += older.consumed;
        }
      }
    }
    spare_ = std::move(mark);
  }
  marks_.resize(kept);
}

uint32_t StepHistory::steps() const noexcept {
  const std::lock_guard guard(mutex_);
  return steps_;
}

void StepHistory::rebase() noexcept {
  const std::lock_guard guard(mutex_);
  base_ = steps_;
}

uint32_t StepHistory::base() const noexcept {
  const std::lock_guard guard(mutex_);
  return base_;
}

const Mark* StepHistory::find(uint32_t step) const {
  const auto after = std::upper_bound(
      marks_.begin(), marks_.end(), step, [](uint32_t value, const Kept& kept) { return value < kept.step; });
  return after == marks_.begin() ? nullptr : std::prev(after)->mark.get();
}

std::optional<uint32_t> StepHistory::nearest(uint32_t step) const {
  const std::lock_guard guard(mutex_);
  const Mark* mark = find(step);
  return mark != nullptr ? std::optional(mark->step) : std::nullopt;
}

LiveCount StepHistory::countAt(uint32_t step, uint32_t group) const {
  const std::lock_guard guard(mutex_);
  const Mark* mark = find(step);
  return mark != nullptr && group < mark->counts.size() ? mark->counts[group] : LiveCount{};
}

std::vector<uint32_t> StepHistory::groupsOf(uint32_t step, int64_t blocks) const {
  std::vector<uint32_t> groups;
  const std::lock_guard guard(mutex_);
  if (const Mark* mark = find(step); mark != nullptr) {
    for (size_t group = 0; group < mark->counts.size(); ++group) {
      if (mark->counts[group].blocks >= blocks) {
        groups.push_back(static_cast<uint32_t>(group));
      }
    }
  }
  return groups;
}

std::vector<uint32_t> StepHistory::groupsWithMoreBytes(uint32_t step) const {
  std::vector<uint32_t> groups;
  const std::lock_guard guard(mutex_);
  if (marks_.empty()) {
    return groups;
  }
  const std::vector<LiveCount>& newest = marks_.back().mark->counts;
  const Mark* mark = find(step);
  for (size_t group = 0; group < newest.size(); ++group) {
    const int64_t before = mark != nullptr && group < mark->counts.size() ? mark->counts[group].bytes : 0;
    if (newest[group].bytes > before) {
      groups.push_back(static_cast<uint32_t>(group));
    }
  }
  return groups;
}

std::vector<std::pair<uint32_t, LiveCount>> StepHistory::countsSince(uint32_t step, uint32_t group) const {
  std::vector<std::pair<uint32_t, LiveCount>> counts;
  const std::lock_guard guard(mutex_);
  for (const Kept& kept : marks_) {
    if (kept.step >= step) {
      counts.emplace_back(kept.step, group < kept.mark->counts.size() ? kept.mark->counts[group] : LiveCount{});
    }
  }
  return counts;
}

std::optional<std::vector<GroupChange>> StepHistory::diff(uint32_t from, uint32_t to) const {
  const std::lock_guard guard(mutex_);
  const Mark* a = find(from);
  const Mark* b = find(to);
  if (a == nullptr || b == nullptr || a->step != from || b->step != to) {
    return std::nullopt;
  }
  std::vector<GroupChange> changes;
  const size_t groups = std::max(a->counts.size(), b->counts.size());
  for (size_t group = 0; group < groups; ++group) {
    const LiveCount before = group < a->counts.size() ? a->counts[group] : LiveCount{};
    const LiveCount after = group < b->counts.size() ? b->counts[group] : LiveCount{};
    if (before != after) {
      changes.push_back(
          {static_cast<uint32_t>(group), {after.blocks - before.blocks, after.bytes - before.bytes}, after});
    }
  }
  return changes;
}

Tide StepHistory::tide(uint32_t group) const {
  const std::lock_guard guard(mutex_);
  return group < tides_.size() ? tides_[group] : Tide{};
}

std::vector<Mark> StepHistory::rows(uint32_t since) const {
  const std::lock_guard guard(mutex_);
  auto first = marks_.end();
  while (first != marks_.begin() && std::prev(first)->step >= since) {
    --first;
  }
  std::vector<Mark> rows;
  rows.reserve(static_cast<size_t>(marks_.end() - first));
  for (; first != marks_.end(); ++first) {
    const auto& [step, mark] = *first;
    rows.push_back({mark->firstStep, step, mark->seconds, mark->devices, {}});
  }
  return rows;
}

size_t StepHistory::hostBytes() const {
  const std::lock_guard guard(mutex_);
  size_t bytes = tides_.capacity() * sizeof(Tide);
  for (const auto& [step, mark] : marks_) {
    bytes += sizeof(Mark) + mark->counts.capacity() * sizeof(LiveCount);
  }
  return bytes;
}

} // namespace leakguard
