#pragma once

#include <Python.h>

#include <optional>

#include "interpreter/holder.h"

namespace leakguard {

// Length and declared limit of a container that grows by itself: list, dict, set, deque, lru_cache and what derives
// from them; nothing for any other object. owner: the object that holds it, or null; a queue.Queue declares the limit
// of the deque inside it. Runs no user code. Needs the GIL.
std::optional<HolderContainer> describeContainer(PyObject* object, PyObject* owner);

} // namespace leakguard
