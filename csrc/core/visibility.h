#pragma once

// Symbols that other libraries of this project, or a C++ program, link against. Everything else stays hidden.
#define LEAKGUARD_API __attribute__((visibility("default")))

// A path seldom taken: kept out of the allocator's path, which finds the instruction cache full of the program's own
// code.
#define LEAKGUARD_SELDOM __attribute__((noinline, cold))
