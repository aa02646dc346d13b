#include "interpreter/notebook_history.h"

#include <utility>

#include "interpreter/reference_name.h"
#include "interpreter/roots.h"

namespace leakguard {

namespace {

// Passes on all references but those that are Out's.
class WithoutResults final : public EdgeSink {
 public:
  WithoutResults(std::unordered_map<PyObject*, unsigned> left_out, EdgeSink& sink)
      : left_out_(std::move(left_out)), sink_(sink) {}

  void object(PyObject* object) override {
    const auto found = left_out_.find(object);
    if (found != left_out_.end() && found->second > 0) {
      found->second--;
    } else {
      sink_.object(object);
    }
  }
  void foreign(NodeKind kind, void* address) override {
    sink_.foreign(kind, address);
  }

 private:
  std::unordered_map<PyObject*, unsigned> left_out_;
  EdgeSink& sink_;
};

PyObject* attributeOf(PyObject* object, const char* name) {
  PyObject* attributes = lg_existing_dict(object);
  return attributes != nullptr ? lookUp(attributes, name) : lg_inline_attribute(object, name);
}

} // namespace

bool isResultName(PyObject* key) noexcept {
  if (!PyUnicode_Check(key)) {
    return false;
  }
  const auto kind = PyUnicode_KIND(key);
  const void* text = PyUnicode_DATA(key);
  const Py_ssize_t length = PyUnicode_GET_LENGTH(key);
  bool underscores = length > 0 && length <= 3;
  bool number = length > 1 && PyUnicode_READ(kind, text, 0) == '_';
  for (Py_ssize_t i = 0; i < length; i++) {
    const Py_UCS4 ch = PyUnicode_READ(kind, text, i);
    underscores = underscores && ch == '_';
    number = number && (i == 0 || (ch >= '0' && ch <= '9'));
  }
  return underscores || number;
}

NotebookHistory::Counts NotebookHistory::resultsIn(PyObject* dict) const {
  Counts counts;
  PyObject *key, *value;
  Py_ssize_t position = 0;
  while (dict != nullptr && PyDict_Next(dict, &position, &key, &value)) {
    if (isResultName(key) && results_.contains(value)) {
      counts[value]++;
    }
  }
  return counts;
}

void NotebookHistory::find() {
  PyObject* names = moduleDict("__main__");
  PyObject* outputs = lookUp(names, "_oh");
  PyObject* get_shell = lookUp(names, "get_ipython");
  if (outputs == nullptr || !PyDict_CheckExact(outputs) || get_shell == nullptr || !PyMethod_Check(get_shell)) {
    return;
  }
  outputs_ = outputs;
  names_ = names;
  PyObject *key, *value;
  Py_ssize_t position = 0;
  while (PyDict_Next(outputs, &position, &key, &value)) {
    results_.insert(value);
  }
  PyObject* hidden = attributeOf(PyMethod_GET_SELF(get_shell), "user_ns_hidden");
  if (hidden != nullptr && PyDict_CheckExact(hidden)) {
    hidden_ = hidden;
    position = 0;
    while (PyDict_Next(hidden, &position, &key, &value)) { // keeps the last three when Out is cleared
      if (isResultName(key)) {
        results_.insert(value);
      }
    }
  }
  in_names_ = resultsIn(names_);
  in_hidden_ = resultsIn(hidden_);
  if (PyObject* hook = PySys_GetObject("displayhook"); hook != nullptr) {
    PyObject* attributes = lg_existing_dict(hook);
    hook_ = attributes != nullptr ? attributes : hook;
    for (const char* name : {"_", "__", "___"}) {
      value = attributeOf(hook, name);
      if (value != nullptr && results_.contains(value)) {
        in_hook_[value]++;
      }
    }
  }
}

void NotebookHistory::show(PyObject* object, ObjectReferences& references, EdgeSink& sink) const {
  if (object != outputs_) {
    WithoutResults others(object == names_ ? in_names_ : object == hidden_ ? in_hidden_ : in_hook_, sink);
    references.show(object, others);
    return;
  }
  references.show(object, sink);
  for (const Counts* counts : {&in_names_, &in_hidden_, &in_hook_}) {
    for (const auto& [result, count] : *counts) {
      for (unsigned i = 0; i < count; i++) {
        sink.object(result);
      }
    }
  }
}

} // namespace leakguard
