#include "bindings/module_search.h"

#include <atomic>

#include "interpreter/running_line.h"

namespace py = pybind11;

namespace leakguard {
namespace {

PyObject* callback = nullptr; // owned; read and written under the GIL
std::atomic<bool> asked{false};

int callBack(void* /*unused*/) {
  asked.store(false, std::memory_order_relaxed);
  if (callback != nullptr) {
    PyObject* function = Py_NewRef(callback); // it may stop the search and so drop itself
    PyObject* result = PyObject_CallNoArgs(function);
    if (result == nullptr) {
      PyErr_WriteUnraisable(function);
    }
    Py_XDECREF(result);
    Py_DECREF(function);
  }
  return 0;
}

void askForCallback() noexcept { // without the GIL
  if (!asked.exchange(true, std::memory_order_relaxed) && Py_AddPendingCall(&callBack, nullptr) != 0) {
    asked.store(false, std::memory_order_relaxed); // the queue is full: the next root asks again
  }
}

} // namespace

py::list instancesOf(py::type cls) {
  const py::list all = py::module_::import("gc").attr("get_objects")();
  py::list found;
  auto* wanted = reinterpret_cast<PyTypeObject*>(cls.ptr());
  for (const py::handle object : all) {
    if (PyType_IsSubtype(Py_TYPE(object.ptr()), wanted) != 0) {
      found.append(object);
    }
  }
  return found;
}

void seekRootModulesFor(py::object found) {
  PyObject* old = callback;
  callback = found.is_none() ? nullptr : found.inc_ref().ptr();
  seekRootModules(callback != nullptr, &askForCallback);
  Py_XDECREF(old);
}

} // namespace leakguard
