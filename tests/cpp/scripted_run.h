#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "core/growth.h"
#include "core/ledger.h"
#include "core/step_history.h"

// A small world for the tests: a ledger of its own, an allocator that never fails, and a clock that counts steps.
namespace leakguard::test {

inline Context at(uint32_t line, Phase phase = Phase::Forward) {
  Context context;
  context.line = line;
  context.phase = phase;
  return context;
}

class ScriptedRun {
 public:
  ScriptedRun() : ledger_(std::make_unique<Ledger>()) {
    beginWatch();
  }

  // Another watch of the same process: the ledger goes on, history and growth begin anew.
  void beginWatch() {
    growth_.reset();
    history_ = std::make_unique<StepHistory>(*ledger_);
    growth_ = std::make_unique<Growth>(ledger_->groups(), *history_);
  }

  // Addresses are used again, the latest freed first, as allocators do.
  uint64_t allocate(const Context& context, uint64_t bytes = 1024) {
    uint64_t address = 0;
    if (freed_.empty()) {
      address = next_;
      next_ += 64;
    } else {
      address = freed_.back();
      freed_.pop_back();
    }
    ledger_->born(DeviceKey::Cpu, address, bytes, context);
    return address;
  }
  uint64_t allocate(uint32_t line, uint64_t bytes = 1024) {
    return allocate(at(line), bytes);
  }
  void free(uint64_t address) {
    ledger_->retired(DeviceKey::Cpu, address);
    freed_.push_back(address);
  }

  uint32_t mark() {
    return history_->mark(static_cast<double>(history_->steps()));
  }
  // One step of a loop: the mark and the look that follows each mark. Returns how many groups are newly growing.
  uint32_t endStep() {
    mark();
    return growth_->observe();
  }

  // Evidence for the group of a line, if it is growing now.
  std::optional<Evidence> growing(const Context& context) const {
    const uint32_t wanted = groupOf(context);
    for (const Evidence& evidence : growth_->evidence()) {
      if (evidence.group == wanted) {
        return evidence;
      }
    }
    return std::nullopt;
  }
  std::optional<Evidence> growing(uint32_t line) const {
    return growing(at(line));
  }
  bool anythingGrows() const {
    return !growth_->evidence().empty();
  }
  uint32_t groupOf(const Context& context) const {
    return ledger_->groups().groupFor(
        {context.line, context.via, context.forwardLine, DeviceKey::Cpu, context.phase, context.flags});
  }

  Ledger& ledger() {
    return *ledger_;
  }
  StepHistory& history() {
    return *history_;
  }
  Growth& growth() {
    return *growth_;
  }

 private:
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<StepHistory> history_;
  std::unique_ptr<Growth> growth_;
  uint64_t next_ = 0x10000;
  std::vector<uint64_t> freed_;
};

// The last `capacity` blocks of one line are kept: a ring buffer, a deque with a maximum, a window of recent batches.
class Ring {
 public:
  Ring(ScriptedRun& run, uint32_t line, size_t capacity) : run_(run), line_(line), capacity_(capacity) {}
  void push(uint64_t bytes = 1024) {
    blocks_.push_back(run_.allocate(line_, bytes));
    if (blocks_.size() > capacity_) {
      run_.free(blocks_.front());
      blocks_.pop_front();
    }
  }
  void clear() {
    for (const uint64_t block : blocks_) {
      run_.free(block);
    }
    blocks_.clear();
  }
  size_t size() const {
    return blocks_.size();
  }

 private:
  ScriptedRun& run_;
  uint32_t line_;
  size_t capacity_;
  std::deque<uint64_t> blocks_;
};

} // namespace leakguard::test
