#include "interpreter/running_line.h"

#include <array>
#include <atomic>
#include <exception>
#include <mutex>
#include <unordered_map>

#include "core/module_table.h"
#include "core/thread_slot.h"
#include "interpreter/code_kind.h"
#include "interpreter/frame_path.h"

namespace leakguard {
namespace {

struct RememberedLine {
  uint64_t check; // of code object, instruction and fingerprint
  uint32_t line;
};

// What this thread remembers.
struct LineState {
  FramePaths paths;
  Remembered<RememberedLine, 9> lines;
  LineState* nextFree;
  void recycle() noexcept {} // what is remembered is true on any thread
};

// What all threads remember: lines that share a place must not be decoded anew in turns.
struct SharedLines {
  struct Key {
    const PyCodeObject* code;
    uint64_t fingerprint;
    int lasti;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const noexcept {
      return mixBits(key.fingerprint + reinterpret_cast<uintptr_t>(key.code) + static_cast<unsigned>(key.lasti));
    }
  };
  static constexpr size_t kMost = size_t{1} << 16; // generated code makes ever new ones: then begin anew
  std::mutex mutex; // leaf
  std::unordered_map<Key, uint32_t, Hash> ids;
};
SharedLines& sharedLines() {
  static auto* shared = new SharedLines;
  return *shared;
}

__attribute__((noinline)) uint32_t decode(PyCodeObject* code, int lasti, uint64_t fingerprint) noexcept {
  SharedLines& shared = sharedLines();
  const SharedLines::Key key{code, fingerprint, lasti};
  try {
    {
      const std::lock_guard guard(shared.mutex);
      if (const auto known = shared.ids.find(key); known != shared.ids.end()) {
        return known->second;
      }
    }
    const uint32_t id = lines().intern(locate(code, lasti));
    const std::lock_guard guard(shared.mutex);
    if (shared.ids.size() >= SharedLines::kMost) {
      shared.ids.clear();
    }
    shared.ids.emplace(key, id);
    return id;
  } catch (const std::exception&) {
    return 0;
  }
}

uint32_t lineOf(LineState& state, const LgFrameRef& frame) noexcept {
  auto* code = static_cast<PyCodeObject*>(frame.code);
  const int lasti = frame.lasti_bytes;
  const uint64_t fingerprint = fingerprintOf(code);
  const uint64_t place = scatterBits((reinterpret_cast<uintptr_t>(code) << 16) + static_cast<unsigned>(lasti));
  const uint64_t check = mixBits(fingerprint + place) | 1; // never that of an empty entry
  const RememberedLine* known =
      state.lines.find(place, [check](const RememberedLine& seen) { return seen.check == check; });
  return known != nullptr ? known->line : state.lines.remember(place, {check, decode(code, lasti, fingerprint)}).line;
}

// Root modules met while somebody seeks them.
constexpr size_t kRootsKept = 64;
std::atomic<bool> seeking{false};
std::atomic<void (*)() noexcept> rootFound{nullptr};
std::array<std::atomic<uint64_t>, kRootsKept> roots{};
std::atomic<uint64_t> unknownModules{0};

void noteRoot(uint64_t address) noexcept {
  for (std::atomic<uint64_t>& root : roots) {
    uint64_t seen = root.load(std::memory_order_relaxed);
    if (seen == address) {
      return;
    }
    if (seen == 0 && root.compare_exchange_strong(seen, address, std::memory_order_relaxed)) {
      if (const auto found = rootFound.load(std::memory_order_acquire); found != nullptr) {
        found();
      }
      return;
    }
  }
}

uint64_t moduleAt(const OwnFrames& frames, int index) noexcept {
  return reinterpret_cast<uintptr_t>(lg_first_slot(&frames[index]));
}

void nameModule(Context& context, uint64_t address) noexcept {
  const ModuleTable::Found found = modules().find(address);
  if (found.known) {
    context.module = found.name;
  } else if (address != 0) {
    unknownModules.fetch_add(1, std::memory_order_relaxed);
  }
}

} // namespace

void readRunningLine(Context& context) noexcept {
  LineState* state = ThreadSlot<LineState>::get();
  if (state == nullptr) {
    return;
  }
  OwnFrames frames;
  const bool backward = context.phase == Phase::Backward;
  const bool all = seeking.load(std::memory_order_relaxed);
  const FramePath path = all ? state->paths.walkAll(frames, backward) : state->paths.find(frames, backward);
  if (path.user >= 0) {
    context.line = lineOf(*state, frames[path.user]);
    context.via = path.library >= 0 ? lineOf(*state, frames[path.library]) : 0;
    context.flags |= path.userInBackward ? block_flag::kUserLineInBackward : 0;
  } else if (path.library >= 0 || path.innermost >= 0) {
    context.line = lineOf(*state, frames[path.library >= 0 ? path.library : path.innermost]);
  }
  if (path.module >= 0) {
    nameModule(context, moduleAt(frames, path.module));
  }
  context.flags |= path.recomputed ? block_flag::kRecomputed : 0;
  if (!backward) {
    context.phase = path.optimizer ? Phase::Optimizer : path.module >= 0 ? Phase::Forward : Phase::Other;
  }
  if (all && path.outermost >= 0) {
    if (const uint64_t root = moduleAt(frames, path.outermost); root != 0) {
      noteRoot(root);
    }
  }
}

void seekRootModules(bool seek, void (*found)() noexcept) noexcept {
  for (std::atomic<uint64_t>& root : roots) {
    root.store(0, std::memory_order_relaxed);
  }
  rootFound.store(found, std::memory_order_release);
  seeking.store(seek, std::memory_order_relaxed);
}

std::vector<uint64_t> seenRootModules() {
  std::vector<uint64_t> seen;
  for (const std::atomic<uint64_t>& root : roots) {
    if (const uint64_t address = root.load(std::memory_order_relaxed); address != 0) {
      seen.push_back(address);
    }
  }
  return seen;
}

uint64_t takeUnknownModules() noexcept {
  return unknownModules.exchange(0, std::memory_order_relaxed);
}

} // namespace leakguard
