#include "interpreter/running_line.h"

#include <array>
#include <atomic>
#include <exception>
#include <mutex>
#include <unordered_map>

#include "core/module_table.h"
#include "core/thread_slot.h"
#include "interpreter/code_kind.h"
#include "interpreter/cpython_layout.h"

namespace leakguard {
namespace {

constexpr int kDeepest = 256; // frames looked at
constexpr int kBeyondUserLine = 48; // frames looked at for the module, once the line is known
constexpr size_t kRemembered = 512;

struct RememberedKind {
  const PyCodeObject* code;
  uint64_t fingerprint;
  uint32_t rules;
  CodeKind kind;
};
struct RememberedLine {
  const PyCodeObject* code;
  uint64_t fingerprint;
  int lasti;
  uint32_t line;
};

// What this thread remembers; direct-mapped, so that a look costs one comparison.
struct LineState {
  std::array<RememberedKind, kRemembered> kinds;
  std::array<RememberedLine, kRemembered> lines;
  LineState* nextFree;
  void recycle() noexcept {} // what is remembered is true on any thread
};

// What all threads remember: two lines that share a place in `lines` must not be decoded anew in turns.
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

CodeKind kindOf(LineState& state, const PyCodeObject* code) noexcept {
  RememberedKind& seen = state.kinds[mixBits(reinterpret_cast<uintptr_t>(code) >> 4) % kRemembered];
  const uint64_t fingerprint = kindFingerprintOf(code);
  if (seen.code == code && seen.fingerprint == fingerprint && seen.rules == rulesVersion()) {
    return seen.kind;
  }
  seen = {code, fingerprint, rulesVersion(), classify(code)};
  return seen.kind;
}

uint32_t lineOf(LineState& state, const LgFrameRef& frame) noexcept {
  auto* code = static_cast<PyCodeObject*>(frame.code);
  const uint64_t place = (reinterpret_cast<uintptr_t>(code) >> 4) * 31 + static_cast<unsigned>(frame.lasti_bytes);
  RememberedLine& seen = state.lines[mixBits(place) % kRemembered];
  const uint64_t fingerprint = fingerprintOf(code);
  if (seen.code == code && seen.lasti == frame.lasti_bytes && seen.fingerprint == fingerprint) {
    return seen.line;
  }
  seen = {code, fingerprint, frame.lasti_bytes, decode(code, frame.lasti_bytes, fingerprint)};
  return seen.line;
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

// The state of one walk, innermost frame first.
struct Walk {
  Context& context;
  LineState& state;
  const bool backward;
  const bool toTheEnd;
  bool engineCrossed = false; // frames from here on called backward(), they do not run in it
  bool moduleMet = false;
  bool optimizerMet = false;
  uint64_t outermost = 0;
  LgFrameRef innermost{}; // any frame at all
  LgFrameRef library{}; // innermost frame outside torch and the standard library that is not the user's
  uint32_t user = 0;
  int beyond = 0;

  // Returns whether to go on.
  bool step(const LgFrameRef& frame) noexcept {
    const auto* code = static_cast<const PyCodeObject*>(frame.code);
    switch (kindOf(state, code)) {
      case CodeKind::User:
        if (user == 0) {
          user = lineOf(state, frame);
          context.flags |= backward && !engineCrossed ? block_flag::kUserLineInBackward : 0;
        }
        break;
      case CodeKind::Library:
      case CodeKind::Generated:
        if (library.code == nullptr && user == 0) {
          library = frame;
        }
        break;
      case CodeKind::ModuleCall:
        meetModule(reinterpret_cast<uintptr_t>(frame.slot0));
        break;
      case CodeKind::OptimizerStep:
        optimizerMet |= !moduleMet;
        break;
      case CodeKind::EngineEntry:
        engineCrossed |= backward;
        break;
      case CodeKind::Torch:
      case CodeKind::Standard:
        if (innermost.code == nullptr) {
          innermost = frame;
        }
        break;
    }
    const bool complete = user != 0 && (moduleMet || optimizerMet || engineCrossed || ++beyond > kBeyondUserLine);
    return toTheEnd || !complete;
  }

  void meetModule(uint64_t address) noexcept {
    outermost = address;
    if (moduleMet || engineCrossed || address == 0) {
      return;
    }
    moduleMet = true;
    const ModuleTable::Found found = modules().find(address);
    if (found.known) {
      context.module = found.name;
    } else {
      unknownModules.fetch_add(1, std::memory_order_relaxed);
    }
  }

  void finish() noexcept {
    const LgFrameRef& instead = library.code != nullptr ? library : innermost;
    if (user != 0) {
      context.line = user;
      context.via = library.code != nullptr ? lineOf(state, library) : 0;
    } else if (instead.code != nullptr) {
      context.line = lineOf(state, instead);
    }
    if (context.phase != Phase::Backward) {
      context.phase = optimizerMet ? Phase::Optimizer : moduleMet ? Phase::Forward : Phase::Other;
    }
    if (toTheEnd && outermost != 0) {
      noteRoot(outermost);
    }
  }
};

} // namespace

void readRunningLine(Context& context) noexcept {
  LineState* state = ThreadSlot<LineState>::get();
  if (state == nullptr) {
    return;
  }
  Walk walk{
      .context = context,
      .state = *state,
      .backward = context.phase == Phase::Backward,
      .toTheEnd = seeking.load(std::memory_order_relaxed)};
  std::array<LgFrameRef, 8> frames; // NOLINT(cppcoreguidelines-pro-type-member-init): filled below
  void* cursor = nullptr;
  for (int depth = 0; depth < kDeepest; depth += static_cast<int>(frames.size())) {
    const int count = lg_own_frames(&cursor, frames.data(), static_cast<int>(frames.size()));
    for (int i = 0; i < count; ++i) {
      if (!walk.step(frames[i])) {
        walk.finish();
        return;
      }
    }
    if (count < static_cast<int>(frames.size())) {
      break;
    }
  }
  walk.finish();
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
