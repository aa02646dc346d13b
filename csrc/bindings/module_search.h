#pragma once

#include <pybind11/pybind11.h>

namespace leakguard {

// Objects whose type is `cls` or derives from it, of all that the collector tracks. Asks types only, never an object:
// proxies answer `isinstance` with code of their own. Not found: what gc.freeze() has put away.
pybind11::list instancesOf(pybind11::type cls);

// Calls `found()` in the main thread, between two bytecodes, soon after an allocation has met a root module that was
// not met before; None stops it. What it raises is reported as unraisable.
void seekRootModulesFor(pybind11::object found);

} // namespace leakguard
