#pragma once

#include <Python.h>

#include <span>
#include <unordered_map>
#include <vector>

namespace leakguard {

// Which of some unreachable objects a full collection would free, found by the collector's own rule: it sees only what
// tp_traverse shows, and an object with more references than that keeps itself and all it shows alive. Build it when no
// reference of ours is left on the objects. Needs the GIL.
class CollectorVerdict {
 public:
  explicit CollectorVerdict(std::span<PyObject* const> unreachable);
  bool frees(PyObject* object) const {
    return candidates_.contains(object) && !candidates_.at(object).kept;
  }

 private:
  struct Candidate {
    Py_ssize_t shown = 0;
    bool kept = false;
    std::vector<PyObject*> shows;
  };
  std::unordered_map<PyObject*, Candidate> candidates_;
};

} // namespace leakguard
