// One state to a thread, ready at any time of its life, and back in the pool when it ends.
#include <pthread.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "catch.h"
#include "core/thread_slot.h"

using namespace leakguard;

namespace {

template <int Kind>
struct State {
  int uses;
  int recycled;
  State* nextFree;
  void recycle() noexcept {
    uses = 0;
    ++recycled;
  }
};

} // namespace

TEST_CASE("a thread has one state, zeroed at first, and no other thread has it") {
  using Slot = ThreadSlot<State<1>>;
  auto* mine = Slot::get();
  REQUIRE(mine != nullptr);
  CHECK(mine->uses == 0);
  ++mine->uses;
  CHECK(Slot::get() == mine);
  State<1>* other = nullptr;
  std::thread([&] { other = Slot::get(); }).join();
  CHECK(other != nullptr);
  CHECK(other != mine);
  CHECK(mine->uses == 1);
}

TEST_CASE("kinds of state do not mix") {
  CHECK(static_cast<void*>(ThreadSlot<State<2>>::get()) != static_cast<void*>(ThreadSlot<State<3>>::get()));
}

TEST_CASE("a program that starts a thread for each step needs one state for all of them") {
  using Slot = ThreadSlot<State<4>>;
  std::set<State<4>*> seen;
  for (int step = 0; step < 50; ++step) {
    State<4>* state = nullptr;
    int usesAtFirst = -1;
    std::thread([&] {
      state = Slot::get();
      usesAtFirst = state->uses;
      state->uses = 7;
    }).join();
    seen.insert(state);
    CHECK(usesAtFirst == 0);
  }
  CHECK(seen.size() == 1);
  CHECK((*seen.begin())->recycled == 50);
}

namespace {

// A destructor of the thread's own that runs after our state went back to the pool: allocators are called that late.
pthread_key_t lateKey;
std::atomic<int> lateUses{0};
void useLate(void* rounds) {
  if (ThreadSlot<State<5>>::get() != nullptr) {
    ++lateUses;
  }
  const auto left = reinterpret_cast<intptr_t>(rounds) - 1;
  if (left > 0) {
    pthread_setspecific(lateKey, reinterpret_cast<void*>(left));
  }
}

} // namespace

TEST_CASE("a state can be had again while its thread is being torn down, and goes back once more") {
  using Slot = ThreadSlot<State<5>>;
  REQUIRE(pthread_key_create(&lateKey, useLate) == 0);
  State<5>* state = nullptr;
  std::thread([&] {
    state = Slot::get();
    pthread_setspecific(lateKey, reinterpret_cast<void*>(2));
  }).join();
  CHECK(lateUses == 2);
  State<5>* next = nullptr;
  std::thread([&] { next = Slot::get(); }).join();
  CHECK(next == state);
  pthread_key_delete(lateKey);
}

TEST_CASE("threads that live at once have states of their own") {
  using Slot = ThreadSlot<State<6>>;
  constexpr int kThreads = 8;
  std::atomic<int> ready{0};
  std::vector<State<6>*> states(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      states[static_cast<size_t>(t)] = Slot::get();
      ++ready;
      while (ready < kThreads) {
        std::this_thread::yield();
      }
      for (int i = 0; i < 1000; ++i) {
        ++Slot::get()->uses;
      }
      ready += Slot::get()->uses == 1000 ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(std::set<State<6>*>(states.begin(), states.end()).size() == kThreads);
  CHECK(ready == 2 * kThreads);
}
