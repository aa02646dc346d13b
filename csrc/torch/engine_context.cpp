#include "torch/engine_context.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <thread>
#include <typeinfo>

#include "core/block_table.h"
#include "core/call_site.h"
#include "core/thread_slot.h"
#include "torch/operator_names.h"

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
  uint64_t seen; // sequence numbers below have their line, or never will
  uint32_t watch; // the watch that `seen` is of
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
    watch = 0;
  }
};

std::atomic<uint32_t> watches{0};
std::atomic<uint64_t> lastOldThread{0}; // threads up to this number may have made nodes before this watch began

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
    context.node = runningOperator();
    return false;
  }
  context.phase = Phase::Backward;
  EngineState* state = ThreadSlot<EngineState>::get();
  if (state == nullptr) {
    return true;
  }
  context.node = nameOf(*state, *node);
  const ForwardPlace made = forwardLineOf(node->thread_id(), node->sequence_nr());
  if (made.line != 0 || made.module != 0) {
    context.forwardLine = made.line;
    context.module = made.module;
  }
  return true;
}

ForwardPlace forwardLineOf(uint64_t thread, uint64_t sequence) noexcept {
  const ForwardRing* ring = rings[thread % kThreads].load(std::memory_order_acquire);
  if (ring == nullptr || ring->thread.load(std::memory_order_relaxed) != thread) {
    return {};
  }
  const ForwardLine& entry = ring->lines[sequence % kForwardLines];
  if (entry.sequence.load(std::memory_order_acquire) != sequence + 1) {
    return {};
  }
  const ForwardPlace place{entry.line.load(std::memory_order_relaxed), entry.module.load(std::memory_order_relaxed)};
  std::atomic_thread_fence(std::memory_order_acquire);
  // Unless it was overwritten meanwhile.
  return entry.sequence.load(std::memory_order_relaxed) == sequence + 1 ? place : ForwardPlace{};
}

void rememberForwardLine(const Context& context, uint32_t line) noexcept {
  const uint64_t next = at::sequence_number::peek();
  EngineState* state = ThreadSlot<EngineState>::get();
  if (state == nullptr) {
    return;
  }
  const uint32_t watch = watches.load(std::memory_order_acquire);
  if (state->watch != watch) {
    state->watch = watch;
    const bool old = at::RecordFunction::currentThreadId() <= lastOldThread.load(std::memory_order_relaxed);
    // Which of its nodes were made since the watch began cannot be told; the next ones can.
    state->seen = old ? next : 0;
  }
  const uint64_t from = state->seen;
  if (next == from) {
    return;
  }
  state->seen = next;
  ForwardRing* ring = next > from ? ringOf(*state) : nullptr;
  if (ring == nullptr) {
    return;
  }
  const uint64_t kept = next - from > kForwardLines ? next - kForwardLines : from;
  for (uint64_t sequence = kept; sequence < next; ++sequence) {
    ForwardLine& entry = ring->lines[sequence % kForwardLines];
    entry.sequence.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    entry.line.store(line, std::memory_order_relaxed);
    entry.module.store(context.module, std::memory_order_relaxed);
    entry.sequence.store(sequence + 1, std::memory_order_release);
  }
}

void beginForwardLines() noexcept {
  uint64_t newest = 0;
  try {
    // Threads are numbered when they make their first node, so a new thread's number is above all of those.
    std::thread([&] { newest = at::RecordFunction::currentThreadId(); }).join();
  } catch (const std::exception&) { // no thread to be had: all count as old
    newest = ~uint64_t{0};
  }
  lastOldThread.store(newest, std::memory_order_relaxed);
  const uint32_t watch = watches.fetch_add(1, std::memory_order_release) + 1;
  if (EngineState* state = ThreadSlot<EngineState>::get(); state != nullptr) {
    state->watch = watch;
    state->seen = at::sequence_number::peek(); // of this thread it is known exactly
  }
}

} // namespace leakguard
