#pragma once

#include <Python.h>

#include <initializer_list>
#include <optional>

#include "interpreter/holder.h"

namespace leakguard {

// Length and declared limit of a container that grows by itself: list, dict, set, deque, lru_cache and what derives
// from them; nothing for any other object. owner: the object that holds it, or null; a queue.Queue declares the limit
// of the deque inside it. A list made in advance, with None in its last places, is filled up to its length. Runs no
// user code. Needs the GIL.
std::optional<HolderContainer> describeContainer(PyObject* object, PyObject* owner);

// The same of a tuple and of numpy's array of objects: they do not grow, but a longer one takes their place. An array
// with empty places is filled up to its size.
std::optional<HolderContainer> describeReplaced(PyObject* object);

// Whether the object's class or one of its bases defines all of these names. No user code is run, no instance is asked.
bool hasMethods(PyObject* object, std::initializer_list<const char*> names);

} // namespace leakguard
