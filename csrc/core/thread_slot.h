#pragma once

#include <pthread.h>

#include <cstdlib>
#include <new>

#include "core/spin_lock.h"

namespace leakguard {

// One State for each thread that asks, for use inside the allocator's path.
//
// A plain thread_local object will not do there: allocators are called before a thread's objects are built and after
// they are destroyed. So the thread holds one pointer (initial-exec, no lazy initialisation), States live in zeroed
// memory of their own and go back to a pool when their thread ends: a program that starts a thread for each step does
// not grow.
//
// State must be valid when zeroed, have a member `State* nextFree`, and `void recycle() noexcept`, which is called on
// the thread that ends and makes the State ready for its next owner.
template <class State>
class ThreadSlot {
 public:
  // This thread's State, or nullptr when there is no memory (or no thread-specific key) for one.
  static State* get() noexcept {
    State* state = current_;
    return state != nullptr ? state : acquire();
  }

 private:
  struct Pool {
    SpinLock lock;
    State* free = nullptr;
    pthread_key_t key{};
    bool usable; // false: the process has no thread-specific keys left, and nobody would take a State back
    Pool() noexcept : usable(pthread_key_create(&key, [](void* state) { release(static_cast<State*>(state)); }) == 0) {}
  };
  static Pool& pool() noexcept {
    static Pool* pool = new Pool; // immortal: threads end after static destruction
    return *pool;
  }

  __attribute__((noinline)) static State* acquire() noexcept {
    Pool& shared = pool();
    if (!shared.usable) {
      return nullptr;
    }
    shared.lock.lock();
    State* state = shared.free;
    if (state != nullptr) {
      shared.free = state->nextFree;
    }
    shared.lock.unlock();
    if (state == nullptr) {
      state = static_cast<State*>(std::calloc(1, sizeof(State)));
      if (state == nullptr) {
        return nullptr;
      }
    }
    pthread_setspecific(shared.key, state);
    current_ = state;
    return state;
  }

  static void release(State* state) noexcept {
    current_ = nullptr;
    state->recycle();
    Pool& shared = pool();
    shared.lock.lock();
    state->nextFree = shared.free;
    shared.free = state;
    shared.lock.unlock();
  }

  static inline thread_local State* current_ __attribute__((tls_model("initial-exec"))) = nullptr;
};

} // namespace leakguard
