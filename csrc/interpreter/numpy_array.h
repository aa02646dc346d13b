#pragma once

#include <Python.h>

#include <span>

namespace leakguard {

// What numpy's arrays refer to, read without numpy. They are not collectable and show nothing themselves. References
// are borrowed; the GIL is held.
bool isNumpyArray(PyTypeObject* type);
// The object whose memory the array shows; null when it has its own.
PyObject* baseOfArray(PyObject* array);
// The items of an array of objects that has its own memory; some may be null.
std::span<PyObject* const> itemsOfArray(PyObject* array);

} // namespace leakguard
