#pragma once

#include <cstdint>

#include "core/visibility.h"

namespace leakguard {

// Names of running operators, opt-in: torch's RecordFunction costs about a fifth of a launch-bound step, whatever its
// callbacks do. FUNCTION scope only. The backward scope is left out: gradient reductions run outside it and would pass
// for forward, while the engine's current node names all of backward.
//
// The callbacks are the process's: switched on for all threads, and removed when switched off. Not to be called from
// two threads at once.
LEAKGUARD_API void nameOperators(bool on);

// Name (nodeNames) of the outermost operator that runs on this thread, 0 when there is none or names are off. What
// Python code allocates inside an operator, in a saved-tensor hook, is given that operator too.
uint32_t runningOperator() noexcept;

} // namespace leakguard
