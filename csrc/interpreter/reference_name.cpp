#include "interpreter/reference_name.h"

#include <structmember.h>

#include <cstring>
#include <vector>

#include "interpreter/notebook_history.h"
#include "interpreter/numpy_array.h"

namespace leakguard {

const char* wordOf(Edge edge) noexcept {
  switch (edge) {
    case Edge::ModuleGlobal:
      return "module global";
    case Edge::Local:
      return "local";
    case Edge::ClosureVariable:
      return "closure";
    case Edge::Temporary:
      return "temporary";
    case Edge::Attribute:
      return "attribute";
    case Edge::ClassAttribute:
      return "class attribute";
    case Edge::Item:
      return "item";
    case Edge::Key:
      return "key";
    case Edge::Default:
      return "default";
    case Edge::BoundSelf:
      return "bound method";
    case Edge::PartialArgument:
      return "partial argument";
    case Edge::CacheEntry:
      return "cache entry";
    case Edge::ContextVariable:
      return "context variable";
    case Edge::Traceback:
      return "traceback";
    case Edge::ExceptionState:
      return "exception";
    case Edge::InterpreterState:
      return "interpreter";
    case Edge::GradFn:
      return "grad_fn";
    case Edge::NextFunction:
      return "next function";
    case Edge::SavedTensor:
      return "saved tensor";
    case Edge::PackedTensor:
      return "packed tensor";
    case Edge::Hook:
      return "hook";
    case Edge::Gradient:
      return "grad";
    case Edge::Base:
      return "base";
    case Edge::Native:
      return "native";
    case Edge::Cycle:
      return "cycle";
    default:
      return "reference";
  }
}

namespace {

// Scanning a larger dictionary for a name costs more than the name tells.
constexpr Py_ssize_t kLargestSearchedDict = 1 << 16;

bool isNamed(PyTypeObject* type, const char* name) {
  return std::strcmp(type->tp_name, name) == 0;
}

ReferenceName inDict(PyObject* dict, PyObject* to) {
  if (PyDict_GET_SIZE(dict) > kLargestSearchedDict) {
    return {Edge::Item};
  }
  PyObject *key, *value;
  PyObject* last_choice = nullptr; // a name that IPython gave: the user's own says more
  Py_ssize_t position = 0;
  while (PyDict_Next(dict, &position, &key, &value)) {
    if (value != to) {
      continue;
    }
    if (!isResultName(key)) {
      return {Edge::Item, nameOfKey(key)};
    }
    last_choice = last_choice != nullptr ? last_choice : key;
  }
  if (last_choice != nullptr) {
    return {Edge::Item, nameOfKey(last_choice)};
  }
  position = 0;
  while (PyDict_Next(dict, &position, &key, &value)) {
    if (key == to) {
      return {Edge::Key};
    }
  }
  return {};
}

ReferenceName inTuple(PyObject* tuple, PyObject* to) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
    if (PyTuple_GET_ITEM(tuple, i) != to) {
      continue;
    }
    if (!PyTuple_CheckExact(tuple)) { // a namedtuple says its fields
      PyObject* fields = lookUp(lg_type_dict(Py_TYPE(tuple)), "_fields");
      if (fields != nullptr && PyTuple_CheckExact(fields) && i < PyTuple_GET_SIZE(fields)) {
        return {Edge::Attribute, textOf(PyTuple_GET_ITEM(fields, i)), static_cast<long>(i)};
      }
    }
    return {Edge::Item, {}, static_cast<long>(i)};
  }
  return {};
}

ReferenceName inFunction(PyObject* object, PyObject* to) {
  auto* function = reinterpret_cast<PyFunctionObject*>(object);
  if (function->func_closure == to) {
    return {Edge::ClosureTuple};
  }
  if (function->func_defaults == to) {
    return {Edge::DefaultsTuple};
  }
  if (function->func_kwdefaults == to) {
    return {Edge::KeywordDefaults};
  }
  if (function->func_globals == to) {
    return {Edge::ModuleDict};
  }
  if (function->func_dict == to) {
    return {Edge::InstanceDict};
  }
  return {Edge::FunctionPart};
}

ReferenceName inException(PyObject* object, PyObject* to) {
  auto* exception = reinterpret_cast<PyBaseExceptionObject*>(object);
  if (exception->traceback == to) {
    return {Edge::Traceback};
  }
  if (exception->context == to) {
    return {Edge::Attribute, "__context__"};
  }
  if (exception->cause == to) {
    return {Edge::Attribute, "__cause__"};
  }
  if (exception->args == to) {
    return {Edge::Attribute, "args"};
  }
  return {};
}

ReferenceName inMembers(PyObject* object, PyObject* to) {
  for (PyTypeObject* type = Py_TYPE(object); type; type = type->tp_base) {
    for (PyMemberDef* member = type->tp_members; member && member->name; member++) {
      if (member->type != T_OBJECT && member->type != T_OBJECT_EX) {
        continue;
      }
      if (*reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + member->offset) == to) {
        return {Edge::Attribute, member->name};
      }
    }
  }
  return {};
}

int collect(PyObject* object, void* list) {
  static_cast<std::vector<PyObject*>*>(list)->push_back(object);
  return 0;
}

// A context variable's value stands just before its variable among what the map's node shows.
ReferenceName inContextMap(PyObject* node, PyObject* to) {
  std::vector<PyObject*> shown;
  Py_TYPE(node)->tp_traverse(node, collect, &shown);
  for (std::size_t i = 0; i + 1 < shown.size(); i++) {
    if (shown[i] != to || !PyContextVar_CheckExact(shown[i + 1])) {
      continue;
    }
    for (PyMemberDef* m = Py_TYPE(shown[i + 1])->tp_members; m && m->name; m++) {
      if (std::strcmp(m->name, "name") != 0) {
        continue;
      }
      PyObject* name = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(shown[i + 1]) + m->offset);
      return {Edge::ContextVariable, textOf(name)};
    }
    return {Edge::ContextVariable};
  }
  return {Edge::Nested};
}

ReferenceName byBuiltinType(PyObject* from, PyObject* to) {
  PyTypeObject* type = Py_TYPE(from);
  if (PyDict_Check(from)) {
    return inDict(from, to);
  }
  if (PyList_CheckExact(from)) {
    return {Edge::Item};
  }
  if (PyTuple_Check(from)) {
    return inTuple(from, to);
  }
  if (PyFunction_Check(from)) {
    return inFunction(from, to);
  }
  if (PyExceptionInstance_Check(from)) {
    return inException(from, to);
  }
  if (PyModule_Check(from)) {
    return PyModule_GetDict(from) == to ? ReferenceName{Edge::ModuleDict} : ReferenceName{};
  }
  if (type == &PyCell_Type) {
    return {Edge::CellContents};
  }
  if (type == &PyMethod_Type) {
    auto* method = reinterpret_cast<PyMethodObject*>(from);
    if (method->im_self != to) {
      return {Edge::FunctionPart};
    }
    const bool plain = PyFunction_Check(method->im_func);
    return {Edge::BoundSelf, plain ? textOf(reinterpret_cast<PyFunctionObject*>(method->im_func)->func_name) : ""};
  }
  if (PyCFunction_Check(from)) {
    auto* function = reinterpret_cast<PyCFunctionObject*>(from);
    return function->m_self == to ? ReferenceName{Edge::BoundSelf, function->m_ml->ml_name}
                                  : ReferenceName{Edge::FunctionPart};
  }
  if (PyTraceBack_Check(from)) {
    return {Edge::Traceback};
  }
  if (isNumpyArray(type)) {
    return {baseOfArray(from) == to ? Edge::Base : Edge::Item};
  }
  if (isNamed(type, "functools.partial")) {
    auto name = inMembers(from, to);
    return name.name == "args" || name.name == "keywords" ? ReferenceName{Edge::PartialArgument} : name;
  }
  if (std::strncmp(type->tp_name, "hamt", 4) == 0) {
    return inContextMap(from, to);
  }
  return {};
}

ReferenceName byLayout(PyObject* from, PyObject* to) {
  PyTypeObject* type = Py_TYPE(from);
  if (PyType_Check(from)) {
    return {lg_type_dict(reinterpret_cast<PyTypeObject*>(from)) == to ? Edge::ClassDict : Edge::Type};
  }
  if (LgFrame frame; lg_frame_of(from, &frame)) {
    auto name = nameInFrame(frame, to);
    if (name.edge != Edge::Unknown) {
      return name;
    }
  }
  if (lg_existing_dict(from) == to) {
    return {Edge::InstanceDict};
  }
  if (PyObject* key = lg_inline_attribute_name(from, to)) {
    return {Edge::Attribute, textOf(key)};
  }
  if (reinterpret_cast<PyObject*>(type) == to) {
    return {Edge::Type};
  }
  if (isNamed(type, "functools._lru_cache_wrapper")) {
    return {Edge::CacheEntry};
  }
  auto name = inMembers(from, to);
  if (name.edge != Edge::Unknown) {
    return name;
  }
  if (PyAnySet_Check(from)) {
    return {Edge::Key};
  }
#if PY_VERSION_HEX < 0x030d0000 // later a ring of the items themselves
  if (isNamed(type, "_queue.SimpleQueue") && PyList_CheckExact(to)) {
    return {Edge::Inner};
  }
#endif
  if (PyList_Check(from) || isNamed(type, "collections.deque") || isNamed(type, "_queue.SimpleQueue")) {
    return {Edge::Item};
  }
  for (PyTypeObject* base = type->tp_base; base; base = base->tp_base) {
    if (isNamed(base, "collections.deque")) {
      return {Edge::Item};
    }
  }
  return {Edge::Nested};
}

} // namespace

ReferenceName nameInFrame(const LgFrame& frame, PyObject* to) {
  const int known = frame.named_slots + (frame.stack_depth > 0 ? frame.stack_depth : 0);
  for (int i = 0; i < known; i++) {
    if (frame.slots[i] != to) {
      continue;
    }
    if (i >= frame.named_slots) {
      return {Edge::Temporary};
    }
    const bool free = lg_slot_kind(frame.code, i) == LG_SLOT_FREE;
    return {free ? Edge::ClosureVariable : Edge::Local, textOf(lg_slot_name(frame.code, i)), i};
  }
  if (frame.function == to) {
    return {Edge::FunctionPart};
  }
  if (frame.locals_dict == to) {
    return {Edge::InstanceDict};
  }
  if (frame.frame_object == to) {
    return {Edge::FrameObject};
  }
  for (int i = 0; frame.stack_depth < 0 && i < frame.stack_limit; i++) {
    if (frame.slots[frame.named_slots + i] == to) {
      return {Edge::Temporary};
    }
  }
  return {};
}

ReferenceName nameReference(PyObject* from, PyObject* to) {
  auto name = byBuiltinType(from, to);
  return name.edge != Edge::Unknown ? name : byLayout(from, to);
}

} // namespace leakguard
