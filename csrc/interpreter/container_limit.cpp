#include "interpreter/container_limit.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "interpreter/cpython_layout.h"
#include "interpreter/numpy_array.h"
#include "interpreter/reference_name.h"

namespace leakguard {

namespace {

PyTypeObject* baseNamed(PyObject* object, const char* name) {
  for (PyTypeObject* type = Py_TYPE(object); type; type = type->tp_base) {
    if (std::strcmp(type->tp_name, name) == 0) {
      return type;
    }
  }
  return nullptr;
}

std::optional<std::int64_t> asLimit(PyObject* number) {
  if (number == nullptr || !PyLong_CheckExact(number)) {
    return std::nullopt;
  }
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
  return overflow ? std::nullopt : std::optional<std::int64_t>(value);
}

PyObject* attribute(PyObject* object, const char* name) {
  PyObject* value = lg_inline_attribute(object, name);
  return value ? value : lookUp(lg_existing_dict(object), name);
}

// The deque type's own C getter: an override in a subclass would be the user's code.
std::optional<std::int64_t> dequeLimit(PyObject* deque, PyTypeObject* type) {
  PyObject* getter = lookUp(lg_type_dict(type), "maxlen");
  if (getter == nullptr || Py_TYPE(getter) != &PyGetSetDescr_Type) {
    return std::nullopt;
  }
  PyObject* value = Py_TYPE(getter)->tp_descr_get(getter, deque, reinterpret_cast<PyObject*>(Py_TYPE(deque)));
  if (value == nullptr) {
    PyErr_Clear();
  }
  const auto limit = asLimit(value);
  Py_XDECREF(value);
  return limit;
}

// functools keeps maxsize in a cell of the function it hangs on every cache.
std::optional<std::int64_t> cacheLimit(PyObject* cache) {
  PyObject* parameters = lookUp(lg_existing_dict(cache), "cache_parameters");
  if (parameters == nullptr || !PyFunction_Check(parameters)) {
    return std::nullopt;
  }
  auto* function = reinterpret_cast<PyFunctionObject*>(parameters);
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  for (int i = 0; function->func_closure && i < code->co_nfreevars; i++) {
    PyObject* name = lg_slot_name(function->func_code, code->co_nlocalsplus - code->co_nfreevars + i);
    if (textOf(name) != "maxsize" || i >= PyTuple_GET_SIZE(function->func_closure)) {
      continue;
    }
    PyObject* cell = PyTuple_GET_ITEM(function->func_closure, i);
    return PyCell_Check(cell) ? asLimit(PyCell_GET(cell)) : std::nullopt;
  }
  return std::nullopt;
}

// The dictionary of entries is what the cache shows just before its wrapped function.
std::int64_t cacheLength(PyObject* cache) {
  std::vector<PyObject*> shown;
  const visitproc note = [](PyObject* object, void* list) {
    static_cast<std::vector<PyObject*>*>(list)->push_back(object);
    return 0;
  };
  Py_TYPE(cache)->tp_traverse(cache, note, &shown);
  PyObject* wrapped = lookUp(lg_existing_dict(cache), "__wrapped__");
  for (std::size_t i = shown.size(); i-- > 1;) {
    if (shown[i] == wrapped && PyDict_CheckExact(shown[i - 1])) {
      return PyDict_GET_SIZE(shown[i - 1]);
    }
  }
  return 0;
}

Py_ssize_t emptyPlacesAtEnd(PyObject* list) {
  Py_ssize_t empty = 0;
  while (empty < PyList_GET_SIZE(list) && PyList_GET_ITEM(list, PyList_GET_SIZE(list) - empty - 1) == Py_None) {
    empty++;
  }
  return empty;
}

} // namespace

std::optional<HolderContainer> describeContainer(PyObject* object, PyObject* owner) {
  if (object == nullptr) {
    return std::nullopt;
  }
  HolderContainer container{shortTypeName(Py_TYPE(object)), 0, std::nullopt};
  if (PyList_Check(object)) {
    container.length = PyList_GET_SIZE(object) - emptyPlacesAtEnd(object);
    if (container.length + 1 < PyList_GET_SIZE(object)) { // one None may well be an item
      container.limit = PyList_GET_SIZE(object);
    }
  } else if (PyDict_Check(object)) {
    container.length = PyDict_GET_SIZE(object);
  } else if (PyAnySet_Check(object)) {
    container.length = PySet_GET_SIZE(object);
  } else if (PyTypeObject* deque = baseNamed(object, "collections.deque")) {
    container.length = Py_SIZE(object);
    container.limit = dequeLimit(object, deque);
    if (!container.limit && owner && baseNamed(owner, "Queue")) {
      const auto limit = asLimit(attribute(owner, "maxsize"));
      if (limit && *limit > 0) {
        container.limit = limit;
      }
    }
  } else if (baseNamed(object, "functools._lru_cache_wrapper")) {
    container.length = cacheLength(object);
    container.limit = cacheLimit(object);
  } else {
    return std::nullopt;
  }
  return container;
}

std::optional<HolderContainer> describeReplaced(PyObject* object) {
  if (object != nullptr && PyTuple_Check(object)) {
    return HolderContainer{shortTypeName(Py_TYPE(object)), PyTuple_GET_SIZE(object), std::nullopt};
  }
  if (object != nullptr && isNumpyArray(Py_TYPE(object))) {
    const auto items = itemsOfArray(object);
    const auto empty =
        std::count_if(items.begin(), items.end(), [](PyObject* item) { return !item || item == Py_None; });
    const auto size = static_cast<std::int64_t>(items.size());
    HolderContainer container{shortTypeName(Py_TYPE(object)), size - empty, std::nullopt};
    if (empty > 0) {
      container.limit = size;
    }
    return container;
  }
  return std::nullopt;
}

bool hasMethods(PyObject* object, std::initializer_list<const char*> names) {
  return object != nullptr && std::all_of(names.begin(), names.end(), [&](const char* name) {
           for (PyTypeObject* type = Py_TYPE(object); type; type = type->tp_base) {
             if (lookUp(lg_type_dict(type), name) != nullptr) {
               return true;
             }
           }
           return false;
         });
}

} // namespace leakguard
