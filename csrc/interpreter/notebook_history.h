#pragma once

#include <Python.h>

#include <unordered_map>
#include <unordered_set>

#include "interpreter/edge_adapter.h"
#include "interpreter/object_references.h"

namespace leakguard {

// What an IPython session keeps of its results. Each is in Out; the names _5, _, __ and ___ of the session's two
// namespaces and attributes of its display hook stand for the same objects. Nobody chose to keep these apart, so all of
// them are one holder: a walk shows them as references of Out. They only change their owner, and the accounting closes
// as before.
class NotebookHistory {
 public:
  // Looks for a session. Needs the GIL from here on; everything is borrowed. May throw std::bad_alloc.
  void find();

  // The dictionary Out; null in a process without a session.
  PyObject* outputs() const noexcept {
    return outputs_;
  }
  // Whether this object's references are to be shown by show().
  bool concerns(PyObject* object) const noexcept {
    return outputs_ != nullptr && (object == outputs_ || (object == names_ || object == hidden_ || object == hook_));
  }
  void show(PyObject* object, ObjectReferences& references, EdgeSink& sink) const;

 private:
  using Counts = std::unordered_map<PyObject*, unsigned>; // how many references to an object are Out's

  Counts resultsIn(PyObject* dict) const;

  PyObject* outputs_ = nullptr;
  PyObject* names_ = nullptr; // the globals of the cells
  PyObject* hidden_ = nullptr; // those of them that %who leaves out
  PyObject* hook_ = nullptr; // the display hook, or its dictionary where it has one
  std::unordered_set<PyObject*> results_;
  Counts in_names_, in_hidden_, in_hook_;
};

// Whether IPython gives this name to a result: _ to ___, or an underscore and a number.
bool isResultName(PyObject* key) noexcept;

} // namespace leakguard
