#include "torch/operator_names.h"

#include <ATen/record_function.h>

#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>

#include "core/block_table.h"
#include "core/call_site.h"
#include "core/thread_slot.h"

namespace leakguard {
namespace {

std::atomic<uint32_t> naming{0}; // number of the time that names are on, 0 = off
std::optional<at::CallbackHandle> callback;

using Text = std::array<char, 64>; // zero-terminated; a longer name is cut
struct OperatorName {
  Text text; // "" = free
  uint32_t name;
};
struct OperatorState {
  const void* outermost; // its record, compared and never read: one that ends on another thread is not reported here
  uint32_t time; // that `outermost` is of
  Text text;
  std::array<OperatorName, 128> names;
  OperatorState* nextFree;

  void recycle() noexcept {
    outermost = nullptr;
  }
};

std::unique_ptr<at::ObserverContext> begun(const at::RecordFunction& record) {
  OperatorState* state = ThreadSlot<OperatorState>::get();
  const uint32_t time = naming.load(std::memory_order_relaxed);
  if (state != nullptr && (state->outermost == nullptr || state->time != time)) {
    state->outermost = &record;
    state->time = time;
    std::strncpy(state->text.data(), record.name(), state->text.size() - 1);
  }
  return nullptr;
}

void ended(const at::RecordFunction& record, at::ObserverContext* /*context*/) {
  OperatorState* state = ThreadSlot<OperatorState>::get();
  if (state != nullptr && state->outermost == &record) {
    state->outermost = nullptr;
  }
}

uint64_t hashOf(const char* text) noexcept {
  uint64_t hash = 1469598103934665603U;
  for (; *text != '\0'; ++text) {
    hash = (hash ^ static_cast<unsigned char>(*text)) * 1099511628211U;
  }
  return mixBits(hash);
}

} // namespace

void nameOperators(bool on) {
  static uint32_t times = 0;
  if (on == callback.has_value()) {
    return;
  }
  if (on) {
    callback = at::addGlobalCallback(at::RecordFunctionCallback(&begun, &ended).scopes({at::RecordScope::FUNCTION}));
    naming.store(++times, std::memory_order_relaxed);
  } else {
    naming.store(0, std::memory_order_relaxed);
    at::removeCallback(*callback);
    callback.reset();
  }
}

uint32_t runningOperator() noexcept {
  const uint32_t time = naming.load(std::memory_order_relaxed);
  if (time == 0) {
    return 0;
  }
  OperatorState* state = ThreadSlot<OperatorState>::get();
  if (state == nullptr || state->outermost == nullptr || state->time != time) {
    return 0;
  }
  OperatorName& known = state->names[hashOf(state->text.data()) % state->names.size()];
  if (known.text != state->text) {
    try {
      known.name = nodeNames().intern(state->text.data());
      known.text = state->text;
    } catch (const std::exception&) {
      return 0;
    }
  }
  return known.name;
}

} // namespace leakguard
