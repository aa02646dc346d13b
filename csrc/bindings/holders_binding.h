#pragma once

#include <pybind11/pybind11.h>

namespace leakguard {

// Adds find_holders() to the native module.
void bindHolders(pybind11::module_& module);

} // namespace leakguard
