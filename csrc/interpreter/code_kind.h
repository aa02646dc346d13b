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
// Contents, not addresses: the strings and tables of a dead one are re-used as easily as the object itself. Of a line
// table above two kilobytes an even sample is taken.
uint64_t fingerprintOf(const PyCodeObject* code) noexcept;
// The same for its kind. A walk asks for every frame, so it is content with the addresses of the names, the first line,
// and length and ends of the file's name: files of two kinds that are alike in all of these do not meet at one address.
uint64_t kindFingerprintOf(const PyCodeObject* code) noexcept;

// Slow: the answer is for the caller to remember.
CodeKind classify(const PyCodeObject* code) noexcept;
Line locate(PyCodeObject* code, int lastiBytes);

// Raised by setCodeRules.
uint32_t rulesVersion() noexcept;

} // namespace leakguard
