#pragma once

#include <Python.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace leakguard {

// The autograd graph behind one tensor.
struct GraphTail {
  const void* address = nullptr; // data of the tensor's storage
  std::uint64_t nodes = 0; // that no tensor with a newer graph reaches
  std::uint64_t old = 0; // of these, made by the same thread as the newest and before a moment
  std::uint32_t line = 0; // LineTable: the line that made the newest node, 0 = unknown
  std::string name; // of the newest node
};

// Graphs with at least `least` nodes from before sequence number `before` behind these tensors (wrappers; others, and
// those without memory, are passed over), most old nodes first. Under the GIL; each node is pinned while it is looked
// at.
std::vector<GraphTail> graphTails(std::span<PyObject* const> tensors, std::uint64_t before, std::uint64_t least);

// The number that this thread's next node gets.
std::uint64_t nextSequenceNumber() noexcept;

} // namespace leakguard
