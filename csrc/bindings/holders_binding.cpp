#include "bindings/holders_binding.h"

#include <malloc.h>
#include <pybind11/stl.h>

#include <optional>
#include <utility>

#include "bindings/holders_to_python.h"
#include "interpreter/roots.h"
#include "owners/graph_tails.h"
#include "owners/holders.h"
#include "owners/memory_facts.h"

namespace py = pybind11;

namespace leakguard {

namespace {

FactQuery factQueryOf(const py::type& parameter, const std::vector<py::type>& types) {
  FactQuery query{reinterpret_cast<PyTypeObject*>(parameter.ptr()), {}};
  for (const py::type& type : types) {
    query.types.push_back(reinterpret_cast<PyTypeObject*>(type.ptr()));
  }
  return query;
}

py::tuple toPython(const MemoryFacts& found) {
  py::dict facts;
  py::list instances;
  for (PyObject* instance : found.instances) {
    instances.append(py::reinterpret_steal<py::object>(instance));
  }
  for (const auto& [address, bits] : found.facts) {
    facts[py::int_(address)] = bits;
  }
  return py::make_tuple(facts, instances, found.graph_seen);
}

py::dict findHoldersOf(
    const std::vector<std::uintptr_t>& addresses,
    std::vector<int> groups,
    int muted_frames,
    int most_owners,
    const std::optional<py::type>& parameter,
    const std::vector<py::type>& types) {
  HolderQuery query;
  for (std::uintptr_t address : addresses) {
    query.addresses.push_back(reinterpret_cast<const void*>(address));
  }
  query.groups = std::move(groups);
  query.muted_frames = muted_frames;
  query.most_owners = most_owners;
  std::optional<FactQuery> facts;
  if (parameter) {
    facts = factQueryOf(*parameter, types);
  }
  const TensorHolders holders = findHolders(std::move(query), facts ? &*facts : nullptr);
  py::dict out = toPython(holders.report);
  out["facts"] = facts ? py::object(toPython(holders.facts)) : py::none();
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
      py::arg("parameter") = py::none(),
      py::arg("types") = std::vector<py::type>{},
      "Who keeps the storages at these data addresses alive");
  module.def(
      "memory_facts",
      [](const py::type& parameter, const std::vector<py::type>& types) {
        return toPython(memoryFacts(factQueryOf(parameter, types)));
      },
      py::arg("parameter"),
      py::arg("types"));
  module.def(
      "data_addresses",
      [](const py::object& tensor, bool gradient) { return dataAddresses(tensor.ptr(), gradient); },
      py::arg("tensor"),
      py::arg("gradient") = false);
  module.attr("TENSOR") = memory_fact::kTensor;
  module.attr("PARAMETER") = memory_fact::kParameter;
  module.attr("GRADIENT") = memory_fact::kGradient;
  module.attr("SAVED") = memory_fact::kSaved;
  module.attr("COMPUTED") = memory_fact::kComputed;
  module.def("graph_tails", &graphTailsOf, py::arg("tensors"), py::arg("before"), py::arg("least"));
  module.def("remember_main_file", &rememberMainFile);
  module.def("next_sequence_number", &nextSequenceNumber);
  module.def("heap_bytes", [] {
    const struct mallinfo2 heap = mallinfo2();
    return heap.uordblks + heap.hblkhd;
  });
}

} // namespace leakguard
