#pragma once

#include <pybind11/pybind11.h>

#include "interpreter/holder.h"

namespace leakguard {

// The values of holder.h as dicts and lists of plain Python values. Needs the GIL.
pybind11::dict toPython(const HolderReport& report);

} // namespace leakguard
