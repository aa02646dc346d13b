#pragma once

#include <Python.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "interpreter/holder.h"
#include "interpreter/reference_name.h"

namespace leakguard {

// What a node of the walk is. Values from kFirstForeign on belong to the adapter: objects that are not Python's.
using NodeKind = std::uint8_t;
inline constexpr NodeKind kPythonObject = 0;
inline constexpr NodeKind kRunningFrame = 1;
inline constexpr NodeKind kFirstForeign = 2;

// Where the references of one object are shown. Null is ignored; each call is one counted reference.
class EdgeSink {
 public:
  virtual void object(PyObject* object) = 0;
  // The walk takes a reference (EdgeAdapter::pin) before this returns: another thread may drop the last one without
  // the GIL. So the address must be read and shown under whatever lock keeps it valid.
  virtual void foreign(NodeKind kind, void* address) = 0;

 protected:
  ~EdgeSink() = default;
};

// Text of a type for people: a short name and what tells one instance from another ("[64, 10] float32").
struct TypeText {
  std::string type;
  std::string detail;
};

// What an attribute of some library type means to a user of that library.
enum class AttributeMeaning : std::uint8_t {
  Plain,
  Table, // holds the attributes the user sees: x._modules['fc1'] is x.fc1
  HookTable, // holds hooks
};

// A library's own references, which tp_traverse does not show. All calls are made with the GIL held; none may run user
// code, create Python objects or throw.
class EdgeAdapter {
 public:
  virtual ~EdgeAdapter() = default;

  // True: showObject replaces tp_traverse for objects of this type.
  virtual bool ownsType(PyTypeObject* type) const noexcept = 0;
  virtual void showObject(PyObject* object, EdgeSink& sink) = 0;
  // references: the count before the walk took its own.
  virtual void showForeign(NodeKind kind, void* address, long references, EdgeSink& sink) = 0;

  // Takes a reference and returns the count before it; -1 for objects that are not counted.
  virtual long pin(NodeKind kind, void* address) noexcept = 0;
  virtual void unpin(NodeKind kind, void* address) noexcept = 0;
  virtual long references(NodeKind kind, void* address) const noexcept = 0;
  // The Python object that owns this one and is owned by it in turn, or null.
  virtual PyObject* wrapper(NodeKind kind, void* address) const noexcept = 0;
  // Bytes that are freed with this object beyond its own few.
  virtual std::uint64_t bytes(NodeKind kind, void* address) const noexcept = 0;

  virtual TypeText typeText(NodeKind kind, void* address) const = 0;
  // Name of a reference with an adapter's object or type at one end at least; Edge::Unknown if it is not known.
  virtual ReferenceName nameOf(NodeKind from_kind, void* from, NodeKind to_kind, void* to) const = 0;
  // What the object looks like as a tensor, if it is one.
  virtual std::optional<ExampleTensor> exampleOf(NodeKind kind, void* address) const = 0;
  virtual AttributeMeaning attributeMeaning(PyTypeObject* owner, std::string_view attribute) const noexcept = 0;
};

} // namespace leakguard
