#include "interpreter/object_references.h"

#include <structmember.h>

#include <cstring>

#include "interpreter/numpy_array.h"

namespace leakguard {

// Note [The accounting must close]
// An object with more references than the walk found is held by C or C++ code. That only means something if every
// counted reference is shown exactly once, so for each type below the walk follows what the interpreter counts:
//  - a type object that is not on the heap does not count its tp_base, and its tp_traverse must not be called;
//  - code objects are not collectable and show nothing;
//  - numpy's array is not collectable; neither are C types that declare object members without Py_TPFLAGS_HAVE_GC;
//  - an lru_cache shows the keys and results of its own list elements.
// The check is cheap and runs in every walk: HeapWalk::overshown() must be empty.

namespace {

bool isNamed(PyTypeObject* type, const char* name) {
  return std::strcmp(type->tp_name, name) == 0;
}

template <class Use>
void eachObjectMember(PyTypeObject* type, const Use& use) {
  for (; type; type = type->tp_base) {
    for (PyMemberDef* member = type->tp_members; member && member->name; member++) {
      if (member->type == T_OBJECT || member->type == T_OBJECT_EX) {
        use(*member);
      }
    }
  }
}

int toSink(PyObject* object, void* sink) {
  static_cast<EdgeSink*>(sink)->object(object);
  return 0;
}

} // namespace

ObjectReferences::Rule ObjectReferences::decide(PyTypeObject* type) const {
  if (adapter_ && adapter_->ownsType(type)) {
    return Rule::Adapter;
  }
  if (PyType_IsSubtype(type, &PyType_Type)) {
    return Rule::TypeObject;
  }
  if (type == &PyCode_Type) {
    return Rule::Code;
  }
  if (isNumpyArray(type)) {
    return Rule::NumpyArray;
  }
  if (isNamed(type, "functools._lru_list_elem")) {
    return Rule::ShownByOwner;
  }
  if (type->tp_flags & Py_TPFLAGS_HAVE_GC) {
    return Rule::Traverse;
  }
  bool has_members = false;
  eachObjectMember(type, [&](const PyMemberDef&) { has_members = true; });
  return has_members ? Rule::Members : Rule::Leaf;
}

ObjectReferences::Rule ObjectReferences::ruleOf(PyTypeObject* type) {
  auto& recent = recent_[(reinterpret_cast<std::uintptr_t>(type) >> 4) % recent_.size()];
  if (recent.first == type) {
    return recent.second;
  }
  auto known = rules_.find(type);
  if (known == rules_.end()) {
    known = rules_.emplace(type, decide(type)).first;
  }
  recent = {type, known->second};
  return known->second;
}

bool ObjectReferences::holdsAnything(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyUnicode_Type || type == &PyLong_Type || type == &PyFloat_Type || type == &PyBytes_Type) {
    return false;
  }
  return ruleOf(type) != Rule::Leaf;
}

void ObjectReferences::show(PyObject* object, EdgeSink& sink) {
  PyTypeObject* type = Py_TYPE(object);
  auto traverse = [&] {
    if (type->tp_traverse && (!type->tp_is_gc || type->tp_is_gc(object))) {
      type->tp_traverse(object, toSink, &sink);
    }
  };
  switch (ruleOf(type)) {
    case Rule::Adapter:
      adapter_->showObject(object, sink);
      break;
    case Rule::Traverse:
      traverse();
      break;
    case Rule::TypeObject: {
      auto* shown = reinterpret_cast<PyTypeObject*>(object);
      if (shown->tp_flags & Py_TPFLAGS_HEAPTYPE) {
        traverse();
      } else {
        lg_visit_static_type(shown, toSink, &sink);
      }
      break;
    }
    case Rule::Code:
      lg_visit_code(object, toSink, &sink);
      break;
    case Rule::NumpyArray:
      sink.object(baseOfArray(object));
      for (PyObject* item : itemsOfArray(object)) {
        sink.object(item);
      }
      break;
    case Rule::Members:
      eachObjectMember(type, [&](const PyMemberDef& member) {
        sink.object(*reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + member.offset));
      });
      break;
    case Rule::Leaf:
    case Rule::ShownByOwner:
      break;
  }
}

void ObjectReferences::showFrame(const LgFrame& frame, EdgeSink& sink) {
  // A generator's object shows its frame's fields itself, the slots too unless the frame is running.
  const bool of_generator = frame.owner == LG_OWNED_BY_GENERATOR;
  if (!of_generator) {
    sink.object(frame.function);
    sink.object(frame.locals_dict);
    sink.object(frame.frame_object);
    sink.object(frame.code);
  } else if (frame.stack_depth >= 0) {
    return;
  }
  const int known = frame.named_slots + (frame.stack_depth > 0 ? frame.stack_depth : 0);
  for (int i = 0; i < known; i++) {
    sink.object(frame.slots[i]);
  }
}

} // namespace leakguard
