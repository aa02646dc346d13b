#pragma once

// Symbols that other libraries of this project, or a C++ program, link against. Everything else stays hidden.
#define LEAKGUARD_API __attribute__((visibility("default")))
