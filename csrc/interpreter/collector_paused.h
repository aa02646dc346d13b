#pragma once

#include <Python.h>

namespace leakguard {

// No collection while it lives. A walk makes no collectable object, but a pinned object's destruction could, and a
// collection would move the lists. Needs the GIL.
class CollectorPaused {
 public:
  CollectorPaused() : was_enabled_(PyGC_Disable() != 0) {}
  ~CollectorPaused() {
    if (was_enabled_) {
      PyGC_Enable();
    }
  }
  CollectorPaused(const CollectorPaused&) = delete;
  CollectorPaused& operator=(const CollectorPaused&) = delete;
  bool wasEnabled() const noexcept {
    return was_enabled_;
  }

 private:
  bool was_enabled_;
};

} // namespace leakguard
