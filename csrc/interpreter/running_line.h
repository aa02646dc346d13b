#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/capture.h"

namespace leakguard {

// Whose code a file is, by the longest prefix of its path.
enum class CodeKind : uint8_t {
  User = 0, // everything no rule speaks of
  Library = 1, // site-packages
  Standard = 2, // the standard library, leakguard itself
  Torch = 3,
  // Found by reading the code object, never given as a rule:
  Generated = 4, // "<string>" and the like
  ModuleCall = 5, // torch's Module._wrapped_call_impl: slot 0 is the module
  OptimizerStep = 6, // the wrapper that torch puts around every optimizer's step
  EngineEntry = 7, // where Python enters the autograd engine
  Recompute = 8, // where torch's checkpointing runs a forward again
  Passing = 9 // torch's or the standard library's, but of the kind that goes: module bodies, what torch.compile wrote
};

// Whether code of this kind lives as long as its file's name, which lives as long as the process.
constexpr bool staysLoaded(CodeKind kind) noexcept {
  return kind != CodeKind::User && kind != CodeKind::Library && kind != CodeKind::Generated &&
      kind != CodeKind::Passing;
}

struct CodeRule {
  std::string prefix;
  CodeKind kind;
};

// Replaces the rules; what threads have remembered of older ones is dropped. GIL not needed.
void setCodeRules(std::vector<CodeRule> rules);

// Reads the running line of this thread into the context, without the GIL; see capture.h. Plug it in with
// plugLineSocket.
//
// The thread's own interpreter frames are walked: only this thread pushes or pops them, and each owns its code. No
// reference count is touched. What is remembered of a code object is checked against a fingerprint of its contents,
// because code objects die and their addresses are used again. Strings are copied at first sight.
void readRunningLine(Context& context) noexcept;

// Root modules seen in forward calls that nobody has registered in modules(): the outermost module on the stack of an
// allocation. While `seek` is on, whole stacks are walked; `found` is called, on the allocating thread and without the
// GIL, when an address is seen for the first time.
void seekRootModules(bool seek, void (*found)() noexcept) noexcept;
// Addresses seen so far (they may be dead by now), at most 64.
std::vector<uint64_t> seenRootModules();
// How often a module that is not in modules() was met since the last call.
uint64_t takeUnknownModules() noexcept;

} // namespace leakguard
