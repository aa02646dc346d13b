#pragma once

#include <Python.h>

#include <cstdint>

#include "core/block_table.h"
#include "core/call_site.h"
#include "interpreter/running_line.h"

namespace leakguard {

// Kind of a code object, and its line at an instruction, by reading its memory only: no GIL, no reference count. The
// code object must be alive: it belongs to a frame of this thread.

// Tells a code object from another one that lies at the same address later, by everything that its lines depend on.
// Contents, not addresses: the strings and tables of a dead one are re-used as easily as the object itself.
uint64_t fingerprintOf(const PyCodeObject* code) noexcept;
// Of the contents of a str.
uint64_t hashOf(PyObject* text) noexcept;

// Slow: the answer is for the caller to remember.
CodeKind classify(const PyCodeObject* code) noexcept;
Line locate(PyCodeObject* code, int lastiBytes);

// Raised by setCodeRules.
uint32_t rulesVersion() noexcept;

} // namespace leakguard
