#pragma once

#include <Python.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace leakguard {

// What the objects that refer to some memory make of it, as bits.
namespace memory_fact {
inline constexpr uint8_t kTensor = 1; // a Python object stands for it: a tensor or a storage
inline constexpr uint8_t kParameter = 2; // that object is a torch.nn.Parameter
inline constexpr uint8_t kGradient = 4; // the .grad of a tensor
inline constexpr uint8_t kSaved = 8; // saved in the autograd graph
inline constexpr uint8_t kComputed = 16; // an operation of the graph made it
} // namespace memory_fact

struct FactQuery {
  PyTypeObject* parameter; // torch.nn.Parameter
  std::vector<PyTypeObject*> types; // whose instances are wanted
};

struct MemoryFacts {
  std::unordered_map<uint64_t, uint8_t> facts; // by data address
  std::vector<PyObject*> instances; // new references
  bool graph_seen = true; // false: another thread was in a backward pass, and the graph was left out
};

// One walk over the heap and the autograd graph for all memory, and for all instances of the given types. Needs the
// GIL; releases it only before the walk, for up to 50 ms, while another thread is in a backward pass. An engine's
// thread, in a hook, does not wait for the pass that it is part of. Runs no user code, except that memory another
// thread dropped meanwhile is freed on return. May throw std::bad_alloc.
MemoryFacts memoryFacts(const FactQuery& query);

class HeapWalk;
class TensorEdges;
// The same out of a walk that has run and still pins what it found.
MemoryFacts readFacts(const HeapWalk& walk, const TensorEdges& edges, const FactQuery& query, bool graph_seen);

// Where the memory of a tensor, or of its gradient, is: one address, several for a sparse tensor, none for one without
// memory. Needs the GIL, and that no other thread is in a backward pass when it asks for a gradient.
std::vector<uint64_t> dataAddresses(PyObject* tensor, bool gradient);

} // namespace leakguard
