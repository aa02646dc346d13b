#include "bindings/holders_binding.h"

#include <malloc.h>
#include <pybind11/stl.h>

#include "bindings/holders_to_python.h"
#include "owners/graph_tails.h"
#include "owners/holders.h"

namespace py = pybind11;

namespace leakguard {

namespace {

py::dict findHoldersOf(
    const std::vector<std::uintptr_t>& addresses,
    std::vector<int> groups,
    int muted_frames,
    int most_owners) {
  HolderQuery query;
  for (std::uintptr_t address : addresses) {
    query.addresses.push_back(reinterpret_cast<const void*>(address));
  }
  query.groups = std::move(groups);
  query.muted_frames = muted_frames;
  query.most_owners = most_owners;
  const TensorHolders holders = findHolders(query);
  py::dict out = toPython(holders.report);
  out["statistics"]["graph_seen"] = holders.graph_seen;
  out["statistics"]["waited_seconds"] = holders.waited_seconds;
  return out;
}

py::list graphTailsOf(const py::list& tensors, std::uint64_t before, std::uint64_t least) {
  std::vector<PyObject*> objects;
  for (const py::handle tensor : tensors) {
    objects.push_back(tensor.ptr());
  }
  py::list out;
  for (const GraphTail& tail : graphTails(objects, before, least)) {
    out.append(
        py::make_tuple(reinterpret_cast<std::uintptr_t>(tail.address), tail.nodes, tail.old, tail.line, tail.name));
  }
  return out;
}

} // namespace

void bindHolders(py::module_& module) {
  module.def(
      "find_holders",
      &findHoldersOf,
      py::arg("addresses"),
      py::arg("groups") = std::vector<int>{},
      py::arg("muted_frames") = 0,
      py::arg("most_owners") = 4,
      "Who keeps the storages at these data addresses alive");
  module.def("graph_tails", &graphTailsOf, py::arg("tensors"), py::arg("before"), py::arg("least"));
  module.def("next_sequence_number", &nextSequenceNumber);
  module.def("heap_bytes", [] {
    const struct mallinfo2 heap = mallinfo2();
    return heap.uordblks + heap.hblkhd;
  });
}

} // namespace leakguard
