#pragma once

#include <Python.h>

#include <cstdint>
#include <string>

#include "interpreter/cpython_layout.h"

namespace leakguard {

// How one object refers to another. The first group appears in reports; the second is plumbing that a chain folds into
// the link a user would recognise.
enum class Edge : std::uint8_t {
  Unknown,
  ModuleGlobal,
  Local,
  ClosureVariable,
  Temporary, // on a running frame's value stack alone: a loop's iterator, an argument being passed
  Attribute,
  ClassAttribute,
  Item, // name is the key if it reads like an identifier
  Key, // the object is itself a key, or a member of a set
  Default,
  BoundSelf, // the object a bound method is bound to; name is the method's
  PartialArgument,
  CacheEntry,
  ContextVariable,
  Traceback,
  ExceptionState, // being raised or handled by a thread
  InterpreterState,
  GradFn,
  NextFunction,
  SavedTensor,
  PackedTensor, // what a saved-tensor hook made of the tensor
  Hook,
  Gradient,
  Base,
  Native,
  Cycle,

  Storage, // a tensor's memory
  Self, // two objects that are one to the user: a tensor and its implementation
  InstanceDict,
  ClassDict,
  ModuleDict,
  ClosureTuple,
  CellContents,
  DefaultsTuple,
  KeywordDefaults,
  FunctionPart,
  FrameObject,
  Type,
  Inner, // an object's own storage: what the user put in comes next
  Nested, // a C type's inner object without a name of its own
};

const char* wordOf(Edge edge) noexcept;

struct ReferenceName {
  Edge edge = Edge::Unknown;
  std::string name = {}; // bare identifier, or empty
  long index = -1; // position in a tuple, or slot in a frame
};

// Name of the reference by which from holds to. Looks only at exact builtins, type slots and C members: nothing of the
// user's is called and nothing is created. Needs the GIL.
ReferenceName nameReference(PyObject* from, PyObject* to);
// Likewise for a frame that is on a stack or belongs to a generator.
ReferenceName nameInFrame(const LgFrame& frame, PyObject* to);

// ---- text out of objects, without running code or caching anything in them ---------------------------------------

// Any exact or derived str, at most limit characters, invalid code points replaced.
std::string textOf(PyObject* text, std::size_t limit = 200);
// A dictionary key as a name: an identifier or dotted name that does not look like a secret; else empty.
std::string nameOfKey(PyObject* key);
std::string shortTypeName(PyTypeObject* type);
// Value of a str key in an exact dict; compares exact str keys only. Borrowed, or null.
PyObject* lookUp(PyObject* dict, const char* key);
std::string qualifiedName(PyObject* code);
// A nested function's name without the functions around it.
std::string functionTitle(PyObject* code);
std::string fileOf(PyObject* code);

} // namespace leakguard
