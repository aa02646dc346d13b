#pragma once

#include <c10/util/intrusive_ptr.h>

namespace leakguard {

// Note [Pin when read, release last]
// The GIL keeps Python objects in place, not torch's: a backward pass and the operators run without it and drop tensors
// and nodes while they are being looked at. So each address is pinned at the moment it is read, under whatever keeps it
// valid then (its owner's pin, a node's mutex), and all pins are dropped at the very end, after the last name is read.
// A pin may take a count from 1 to 2, upon which torch takes one reference on the Python wrapper: the walk accounts for
// that. Dropping a pin may drop the last reference and run a destructor.

template <class T>
long useCount(T* target) noexcept {
  auto borrowed = c10::intrusive_ptr<T>::reclaim(target);
  const auto count = static_cast<long>(borrowed.use_count());
  (void)borrowed.release();
  return count;
}

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

}  // namespace leakguard
