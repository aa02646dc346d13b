#include "interpreter/numpy_array.h"

#include <cstring>

namespace leakguard {

namespace {

// The public head of numpy's array, which every release since 1.7 keeps.
struct NumpyArray {
  PyObject_HEAD char* data;
  int dimension_count;
  Py_ssize_t* dimensions;
  Py_ssize_t* strides;
  PyObject* base;
  PyObject* descr;
  int flags;
};
constexpr int kContiguous = 0x1 | 0x2;
constexpr int kOwnsData = 0x4;

// PyArray_Descr: the type object, then kind and type characters.
bool holdsObjects(const NumpyArray& array) {
  return array.descr && reinterpret_cast<char*>(array.descr)[sizeof(PyObject) + sizeof(void*)] == 'O';
}

} // namespace

bool isNumpyArray(PyTypeObject* type) {
  for (; type; type = type->tp_base) {
    if (std::strcmp(type->tp_name, "numpy.ndarray") == 0) {
      return true;
    }
  }
  return false;
}

PyObject* baseOfArray(PyObject* array) {
  return reinterpret_cast<NumpyArray*>(array)->base;
}

std::span<PyObject* const> itemsOfArray(PyObject* object) {
  const auto& array = *reinterpret_cast<NumpyArray*>(object);
  if (!holdsObjects(array) || !(array.flags & kContiguous) || !(array.flags & kOwnsData)) {
    return {};
  }
  Py_ssize_t count = 1;
  for (int i = 0; i < array.dimension_count; i++) {
    count *= array.dimensions[i];
  }
  return {reinterpret_cast<PyObject* const*>(array.data), static_cast<std::size_t>(count)};
}

} // namespace leakguard
