#pragma once

#include <Python.h>

#include <array>
#include <unordered_map>
#include <utility>

#include "interpreter/edge_adapter.h"

namespace leakguard {

// Shows the counted references of one Python object, those that its tp_traverse leaves out included, and skips those
// that tp_traverse shows though they are borrowed. See Note [The accounting must close].
class ObjectReferences {
 public:
  explicit ObjectReferences(EdgeAdapter* adapter) : adapter_(adapter) {}

  // False for objects that can hold nothing: they are no nodes of the walk.
  bool holdsAnything(PyObject* object);
  void show(PyObject* object, EdgeSink& sink);
  static void showFrame(const LgFrame& frame, EdgeSink& sink);

 private:
  enum class Rule : std::uint8_t { Leaf, Traverse, TypeObject, Code, NumpyArray, Members, Adapter, ShownByOwner };
  Rule ruleOf(PyTypeObject* type);
  Rule decide(PyTypeObject* type) const;

  EdgeAdapter* adapter_;
  std::unordered_map<PyTypeObject*, Rule> rules_;
  std::array<std::pair<PyTypeObject*, Rule>, 1024> recent_{};
};

} // namespace leakguard
