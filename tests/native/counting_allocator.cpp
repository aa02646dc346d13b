#include "counting_allocator.h"

#include <c10/core/CPUAllocator.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stdexcept>

namespace counting {
namespace {

struct State {
  std::mutex mutex;
  std::condition_variable handedOut;
  c10::Allocator* inner = nullptr;
  c10::DeleterFnPtr innerDelete = nullptr;
  std::map<uint64_t, Known> live;
  uint64_t births = 0;
  uint64_t frees = 0;
  size_t lingerBytes = 0;
  std::chrono::milliseconds patience{0};
  void* kept = nullptr; // freed by somebody who waits for it to be taken
  uint64_t lingered = 0;
};

State& state() {
  static auto* state = new State; // immortal: tensors may outlive static objects
  return *state;
}

void countAndFree(void* block) {
  State& s = state();
  if (block == nullptr) {
    return;
  }
  {
    std::unique_lock lock(s.mutex);
    const auto known = s.live.find(reinterpret_cast<uintptr_t>(block));
    const size_t bytes = known != s.live.end() ? known->second.bytes : 0;
    if (known != s.live.end()) {
      s.live.erase(known);
      ++s.frees;
    }
    if (bytes != 0 && bytes == s.lingerBytes && s.kept == nullptr) {
      s.kept = block;
      const bool taken = s.handedOut.wait_for(lock, s.patience, [&] { return s.kept != block; });
      if (taken) {
        ++s.lingered;
        return; // it is somebody else's by now
      }
      s.kept = nullptr;
    }
  }
  s.innerDelete(block);
}

class Allocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    State& s = state();
    if (bytes == 0) {
      return s.inner->allocate(bytes);
    }
    {
      const std::lock_guard lock(s.mutex);
      if (s.kept != nullptr && bytes == s.lingerBytes) {
        void* block = s.kept;
        s.live[reinterpret_cast<uintptr_t>(block)] = {bytes, ++s.births};
        s.kept = nullptr;
        s.handedOut.notify_all();
        return {block, block, &countAndFree, c10::Device(c10::kCPU)};
      }
    }
    c10::DataPtr inner = s.inner->allocate(bytes);
    void* block = inner.release_context();
    const std::lock_guard lock(s.mutex);
    s.live[reinterpret_cast<uintptr_t>(block)] = {bytes, ++s.births};
    return {block, block, &countAndFree, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return &countAndFree;
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

} // namespace

void install() {
  static auto* allocator = new Allocator;
  State& s = state();
  if (s.inner != nullptr) {
    throw std::runtime_error("the counting allocator is installed already");
  }
  s.inner = c10::GetAllocator(c10::kCPU);
  s.innerDelete = s.inner->raw_deleter();
  if (s.innerDelete == nullptr) {
    throw std::runtime_error("the CPU allocator in use has no plain deleter");
  }
  c10::SetCPUAllocator(allocator, 0);
  if (!installed()) {
    throw std::runtime_error("the CPU allocator slot could not be had");
  }
}

bool installed() {
  return dynamic_cast<Allocator*>(c10::GetAllocator(c10::kCPU)) != nullptr;
}

std::map<uint64_t, Known> live() {
  const std::lock_guard lock(state().mutex);
  return state().live;
}

uint64_t births() {
  const std::lock_guard lock(state().mutex);
  return state().births;
}

uint64_t frees() {
  const std::lock_guard lock(state().mutex);
  return state().frees;
}

void lingerOn(size_t bytes, int milliseconds) {
  const std::lock_guard lock(state().mutex);
  state().lingerBytes = bytes;
  state().patience = std::chrono::milliseconds(milliseconds);
}

bool someoneLingers() {
  const std::lock_guard lock(state().mutex);
  return state().kept != nullptr;
}

uint64_t lingered() {
  const std::lock_guard lock(state().mutex);
  return state().lingered;
}

} // namespace counting
