#pragma once

#include <cstdint>
#include <source_location>
#include <string_view>

#include "core/call_site.h"
#include "core/capture.h"

namespace leakguard {

// The running line of a C++ program, for plugLineSocket: the innermost Scope of this thread, else the innermost frame
// of its stack outside torch and the system's libraries.
void readProgramLine(Context& context) noexcept;

// Looks at which libraries are loaded. Call before the socket is plugged, and again when more were loaded.
void learnLibraries();

void enterScope(std::string_view name, const std::source_location& where) noexcept;
void leaveScope() noexcept;

// The line as a reader wants it: addresses become file, line and function, as far as the object's debug information and
// addr2line (binutils) tell; else the object and the offsets in it stay.
Line readable(const Line& line);

} // namespace leakguard
