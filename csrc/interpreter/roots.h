#pragma once

#include <Python.h>

#include <string>
#include <vector>

#include "interpreter/cpython_layout.h"

namespace leakguard {

enum class RootKind : std::uint8_t {
  ModuleGlobals,
  RunningFrame,
  Temporary,
  ExceptionRaised,
  ExceptionHandled,
  ThreadDictionary,
  ContextVariables,
  TraceFunction,
  ProfileFunction,
  AsyncState,
  AtexitCallback,
  Interpreter,
  Native,
};

// The lower, the better a user knows it: a path from a lower rank wins against a path that is as long.
enum class RootRank : std::uint8_t { User = 0, LibraryFrame = 1, LibraryModule = 2, ThreadState = 3 };

struct RunningFrame {
  LgFrame frame;
  unsigned long thread;
  int depth; // 0 is the innermost of its thread
  bool muted; // a caller's own frame: what only it holds is not reported
  bool library;
};

// An object from which everything is reached that is not garbage. Borrowed; valid while the GIL is held.
struct RootObject {
  PyObject* object;
  RootKind kind;
  RootRank rank;
  bool counted; // one of the object's references is this root's own
  unsigned long thread;
  PyObject* module_name;
};

struct Roots {
  std::vector<RootObject> objects;
  std::vector<RunningFrame> frames;
};

// muted_frames: how many of the innermost frames of the calling thread belong to the asker.
Roots collectRoots(int muted_frames);

// Whether a source file belongs to the standard library, an installed package or leakguard itself.
class LibraryFiles {
 public:
  LibraryFiles();
  bool contains(const std::string& file) const;

 private:
  std::string standard_library_;
  std::string own_package_;
};

// sys.modules[name].__dict__, or null; imports nothing.
PyObject* moduleDict(const char* name);
// Name given to a thread by the threading module, else empty.
std::string threadName(unsigned long thread);
// Keeps the name of the file that `__main__` runs from. When the script has ended the interpreter takes `__file__`
// back, and what the script left is still to be called after it. Needs the GIL.
void rememberMainFile();
// How a module calls itself to its user: the script's own name in place of __main__.
std::string moduleTitle(PyObject* module_name, PyObject* dict);

} // namespace leakguard
