#include "interpreter/collector_verdict.h"

namespace leakguard {

CollectorVerdict::CollectorVerdict(std::span<PyObject* const> unreachable) {
  for (PyObject* object : unreachable) {
    if (PyObject_IS_GC(object) && PyObject_GC_IsTracked(object)) {
      candidates_[object];
    }
  }
  for (auto& [object, candidate] : candidates_) {
    const visitproc note = [](PyObject* shown, void* list) {
      static_cast<std::vector<PyObject*>*>(list)->push_back(shown);
      return 0;
    };
    Py_TYPE(object)->tp_traverse(object, note, &candidate.shows);
  }
  for (auto& [object, candidate] : candidates_) {
    for (PyObject* shown : candidate.shows) {
      if (auto at = candidates_.find(shown); at != candidates_.end()) {
        at->second.shown++;
      }
    }
  }
  std::vector<Candidate*> open;
  auto keep = [&](Candidate& candidate) {
    if (candidate.kept) {
      return;
    }
    candidate.kept = true;
    open.push_back(&candidate);
  };
  for (auto& [object, candidate] : candidates_) {
    if (Py_REFCNT(object) > candidate.shown) {
      keep(candidate);
    }
  }
  while (!open.empty()) {
    Candidate& candidate = *open.back();
    open.pop_back();
    for (PyObject* shown : candidate.shows) {
      if (auto at = candidates_.find(shown); at != candidates_.end()) {
        keep(at->second);
      }
    }
  }
}

} // namespace leakguard
