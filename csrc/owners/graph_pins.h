#pragma once

#include <c10/util/intrusive_ptr.h>
#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <unordered_map>

#include "owners/node_pointer.h"

namespace leakguard {

// Note [Pin when read, release last]
// The GIL keeps Python objects in place, not torch's: a backward pass and the operators run without it and drop tensors
// and nodes while they are being looked at. So each address is pinned at the moment it is read, under whatever keeps it
// valid then (its owner's pin, a node's mutex), and all pins are dropped at the very end, after the last name is read.
// A pin may take a count from 1 to 2, upon which torch takes one reference on the Python wrapper: the walk accounts for
// that. Dropping a pin may drop the last reference and run a destructor.
//
// One owner is not to be trusted: intrusive_ptr::reset() clears its pointer only after it has dropped the reference,
// and dropping the last reference on a wrapper frees the C++ object with the GIL released. `p.grad = None` in another
// thread can be at that point, for as long as we hold the GIL, and grad_ then names freed memory. Freed memory is told
// by what stands where the vtable was: allocators link their free lists through the first word; a destroyed object that
// is not freed yet has a count of 0.

template <class T>
long useCount(T* target) noexcept {
  auto borrowed = c10::intrusive_ptr<T>::reclaim(target);
  const auto count = static_cast<long>(borrowed.use_count());
  (void)borrowed.release();
  return count;
}

#if !LEAKGUARD_TORCH_HAS_INTRUSIVE_NODES
inline long useCount(torch::autograd::Node* node) noexcept {
  return node->weak_from_this().use_count();
}
#endif

class LiveTargets {
 public:
  // Whether a pointer read from an owner of torch's leads to an object that is alive.
  template <class T>
  bool contains(T* target) noexcept {
    return target != nullptr && isVtable(*reinterpret_cast<void* const*>(target)) && useCount(target) > 0;
  }

 private:
  bool isVtable(void* address) noexcept {
    void*& known = known_[(reinterpret_cast<std::uintptr_t>(address) >> 3) % known_.size()];
    if (known == address) {
      return address != nullptr;
    }
    Dl_info library;
    if (address == nullptr || dladdr(address, &library) == 0) {
      return false;
    }
    known = address;
    return true;
  }

  std::array<void*, 1024> known_{};
};

template <class T>
long pinTarget(T* target) noexcept {
  const long before = useCount(target);
  (void)c10::intrusive_ptr<T>::unsafe_reclaim_from_nonowning(target).release();
  return before;
}

template <class T>
void unpinTarget(T* target) noexcept {
  (void)c10::intrusive_ptr<T>::reclaim(target);
}

// The pins of autograd nodes.
class NodePins {
 public:
#if LEAKGUARD_TORCH_HAS_INTRUSIVE_NODES
  long pin(torch::autograd::Node* node) noexcept {
    return pinTarget(node);
  }
  void unpin(torch::autograd::Node* node) noexcept {
    unpinTarget(node);
  }
#else
  long pin(torch::autograd::Node* node) noexcept {
    auto& pin = pins_[node];
    pin = node->weak_from_this().lock();
    return pin.use_count() - 1;
  }
  void unpin(torch::autograd::Node* node) noexcept {
    const auto last = std::move(pins_[node]); // its destructor may run while the table is whole
    pins_.erase(node);
  }

 private:
  std::unordered_map<torch::autograd::Node*, NodePointer> pins_;
#endif
};

} // namespace leakguard
