#include "torch/engine_context.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <typeinfo>

#include "core/block_table.h"
#include "core/call_site.h"
#include "core/thread_slot.h"

namespace leakguard {
namespace {

// Lines of the latest forward nodes of one thread, by sequence number. The entry is written by its thread and read by
// whichever thread runs the backward pass.
struct ForwardLine {
  std::atomic<uint64_t> sequence; // + 1; 0 = none
  std::atomic<uint32_t> line;
  std::atomic<uint32_t> module;
};
constexpr uint64_t kForwardLines = uint64_t{1} << 14;
struct ForwardRing {
  std::atomic<uint64_t> thread; // torch's number of the thread it belongs to now, 0 = nobody
  std::array<ForwardLine, kForwardLines> lines;
};
constexpr uint64_t kThreads = 4096;
std::array<std::atomic<ForwardRing*>, kThreads> rings{}; // by torch's number of the thread, modulo

struct NodeName {
  const std::type_info* type;
  uint32_t name;
};
struct EngineState {
  ForwardRing* ring;
  uint64_t seen; // sequence numbers below have their line
  std::array<NodeName, 64> names;
  EngineState* nextFree;

  void recycle() noexcept {
    if (ring != nullptr) {
      // Kept for the next thread, since a backward pass may be reading it; nobody finds it under this thread's number.
      ForwardRing* mine = ring;
      rings[mine->thread.load(std::memory_order_relaxed) % kThreads].compare_exchange_strong(mine, nullptr);
      ring->thread.store(0, std::memory_order_release);
    }
    seen = 0;
  }
};

uint32_t nameOf(EngineState& state, const torch::autograd::Node& node) noexcept {
  const std::type_info* type = &typeid(node);
  NodeName& known = state.names[mixBits(reinterpret_cast<uintptr_t>(type)) % state.names.size()];
  if (known.type == type) {
    return known.name;
  }
  uint32_t name = 0;
  try {
    // The name of a Python Function is a Python object's: asking for it would take the GIL.
    const bool python = std::strstr(type->name(), "PyNode") != nullptr;
    name = nodeNames().intern(python ? "autograd.Function" : node.name());
  } catch (const std::exception&) {
    return 0;
  }
  known = {type, name};
  return name;
}

ForwardRing* ringOf(EngineState& state) noexcept {
  if (state.ring == nullptr) {
    state.ring = static_cast<ForwardRing*>(std::calloc(1, sizeof(ForwardRing)));
    if (state.ring == nullptr) {
      return nullptr;
    }
  }
  if (state.ring->thread.load(std::memory_order_relaxed) == 0) {
    for (ForwardLine& entry : state.ring->lines) { // a former owner's numbers must not be found under the new one
      entry.sequence.store(0, std::memory_order_relaxed);
    }
    const uint64_t thread = at::RecordFunction::currentThreadId();
    state.ring->thread.store(thread, std::memory_order_release);
    rings[thread % kThreads].store(state.ring, std::memory_order_release);
  }
  return state.ring;
}

} // namespace

bool readCurrentNode(Context& context) noexcept {
  const auto node = torch::autograd::get_current_node();
  if (!node) {
    return false;
  }
  context.phase = Phase::Backward;
  EngineState* state = ThreadSlot<EngineState>::get();
  if (state == nullptr) {
    return true;
  }
  context.node = nameOf(*state, *node);
  const uint64_t thread = node->thread_id();
  const ForwardRing* ring = rings[thread % kThreads].load(std::memory_order_acquire);
  if (ring == nullptr || ring->thread.load(std::memory_order_relaxed) != thread) {
    return true;
  }
  const uint64_t sequence = node->sequence_nr();
  const ForwardLine& entry = ring->lines[sequence % kForwardLines];
  if (entry.sequence.load(std::memory_order_acquire) == sequence + 1) {
    context.forwardLine = entry.line.load(std::memory_order_relaxed);
    context.module = entry.module.load(std::memory_order_relaxed);
  }
  return true;
}

void rememberForwardLine(const Context& context) noexcept {
  const uint64_t next = at::sequence_number::peek();
  EngineState* state = ThreadSlot<EngineState>::get();
  if (state == nullptr || next == state->seen) {
    return;
  }
  ForwardRing* ring = ringOf(*state);
  if (ring == nullptr) {
    return;
  }
  uint64_t from = state->seen;
  if (next < from || next - from > kForwardLines) { // long since the last allocation that was watched: the latest few
    constexpr uint64_t kFew = 64;
    from = next > kFew ? next - kFew : 0;
  }
  for (uint64_t sequence = from; sequence < next; ++sequence) {
    ForwardLine& entry = ring->lines[sequence % kForwardLines];
    entry.line.store(context.line, std::memory_order_relaxed);
    entry.module.store(context.module, std::memory_order_relaxed);
    entry.sequence.store(sequence + 1, std::memory_order_release);
  }
  state->seen = next;
}

} // namespace leakguard
