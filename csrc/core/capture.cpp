#include "core/capture.h"

#include <atomic>
#include <chrono>

#include "core/thread_slot.h"

namespace leakguard {
namespace {

struct CaptureState {
  PendingContext pending;
  uint16_t number;
  CaptureState* nextFree;
  void recycle() noexcept {
    pending = PendingContext{};
    number = 0;
  }
};

std::atomic<void (*)(Context&) noexcept> readLineSocket{nullptr};
std::atomic<bool (*)(Context&) noexcept> readNodeSocket{nullptr};
std::atomic<void (*)(const Context&, uint32_t) noexcept> rememberForwardSocket{nullptr};
std::atomic<uint16_t> threadsSeen{0};

std::atomic<int64_t> sampledNanoseconds{0};

int64_t nanoseconds() noexcept {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

} // namespace

void plugLineSocket(void (*readLine)(Context&) noexcept) noexcept {
  readLineSocket.store(readLine, std::memory_order_release);
}

void plugNodeSocket(
    bool (*readNode)(Context&) noexcept,
    void (*rememberForward)(const Context&, uint32_t line) noexcept) noexcept {
  readNodeSocket.store(readNode, std::memory_order_release);
  rememberForwardSocket.store(rememberForward, std::memory_order_release);
}

Context captureContext() noexcept {
  Context context;
  if (CaptureState* state = ThreadSlot<CaptureState>::get(); state != nullptr) {
    if (state->number == 0) {
      state->number = static_cast<uint16_t>(threadsSeen.fetch_add(1, std::memory_order_relaxed) + 1);
    }
    context.thread = state->number;
  }
  const auto readNode = readNodeSocket.load(std::memory_order_acquire);
  const bool inBackward = readNode != nullptr && readNode(context);
  if (const auto readLine = readLineSocket.load(std::memory_order_acquire); readLine != nullptr) {
    readLine(context);
  }
  if (const auto remember = rememberForwardSocket.load(std::memory_order_acquire); remember != nullptr) {
    const bool ownLine = !inBackward || (context.flags & block_flag::kUserLineInBackward) != 0;
    remember(context, ownLine ? context.line : context.forwardLine);
  }
  return context;
}

void SampledCost::begin() noexcept {
  began_ = nanoseconds();
}

void SampledCost::end() const noexcept {
  sampledNanoseconds.fetch_add((nanoseconds() - began_) * kTimedOneIn, std::memory_order_relaxed);
}

double SampledCost::seconds() noexcept {
  return static_cast<double>(sampledNanoseconds.load(std::memory_order_relaxed)) * 1e-9;
}

PendingContext* pendingContext() noexcept {
  CaptureState* state = ThreadSlot<CaptureState>::get();
  return state != nullptr ? &state->pending : nullptr;
}

} // namespace leakguard
