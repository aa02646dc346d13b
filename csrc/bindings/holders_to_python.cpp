#include "bindings/holders_to_python.h"

namespace py = pybind11;

namespace leakguard {

namespace {

py::object textOrNone(const std::string& text) {
  return text.empty() ? py::object(py::none()) : py::object(py::str(text));
}
py::object lineOrNone(int line) {
  return line > 0 ? py::object(py::int_(line)) : py::object(py::none());
}

py::dict toPython(const HolderLink& link) {
  py::dict out;
  out["edge"] = link.edge;
  out["name"] = textOrNone(link.name);
  out["type"] = link.type;
  out["detail"] = textOrNone(link.detail);
  out["file"] = textOrNone(link.file);
  out["line"] = lineOrNone(link.line);
  out["count"] = link.count;
  return out;
}

py::dict toPython(const HolderRoot& root) {
  py::dict out;
  out["kind"] = root.kind;
  out["name"] = textOrNone(root.name);
  out["module"] = textOrNone(root.module);
  out["function"] = textOrNone(root.function);
  out["file"] = textOrNone(root.file);
  out["line"] = lineOrNone(root.line);
  out["thread"] = textOrNone(root.thread);
  return out;
}

py::object toPython(const std::optional<HolderContainer>& container) {
  if (!container) {
    return py::none();
  }
  py::dict out;
  out["type"] = container->type;
  out["length"] = container->length;
  out["limit"] = container->limit ? py::object(py::int_(*container->limit)) : py::object(py::none());
  return out;
}

py::dict toPython(const OwnerChain& chain) {
  py::dict out;
  py::list links;
  for (const HolderLink& link : chain.links) {
    links.append(toPython(link));
  }
  out["root"] = chain.root.text;
  out["root_parts"] = toPython(chain.root);
  out["retained_by"] = links;
  out["holder"] = chain.holder;
  out["container"] = toPython(chain.container);
  out["owner_resets"] = chain.owner_resets;
  out["retained_bytes"] = chain.retained_bytes;
  return out;
}

py::object toPython(const std::optional<GarbageVerdict>& garbage) {
  if (!garbage) {
    return py::none();
  }
  py::dict out;
  out["cycle_links"] = garbage->cycle_links;
  out["collectable"] = garbage->collectable ? py::object(py::bool_(*garbage->collectable)) : py::object(py::none());
  out["generation"] = garbage->generation;
  return out;
}

py::object toPython(const std::optional<ExampleTensor>& example) {
  if (!example) {
    return py::none();
  }
  py::dict out;
  py::list shape;
  for (std::int64_t size : example->shape) {
    shape.append(size);
  }
  out["shape"] = shape;
  out["dtype"] = example->dtype;
  out["requires_grad"] = example->requires_grad;
  return out;
}

py::dict toPython(const SuspectHolders& suspect) {
  py::dict out = toPython(suspect.chain);
  py::list owners;
  for (const OwnerChain& owner : suspect.other_owners) {
    owners.append(toPython(owner));
  }
  out["status"] = wordOf(suspect.status);
  out["other_owners"] = owners;
  out["all_owners_bytes"] = suspect.all_owners_bytes;
  out["garbage"] = toPython(suspect.garbage);
  out["example"] = toPython(suspect.example);
  return out;
}

py::dict toPython(const WalkStatistics& statistics) {
  py::dict out;
  out["nodes"] = statistics.nodes;
  out["edges"] = statistics.edges;
  out["native_roots"] = statistics.native_roots;
  out["unreached"] = statistics.unreached;
  out["overshown"] = statistics.overshown;
  py::list types;
  for (const std::string& type : statistics.overshown_types) {
    types.append(type);
  }
  out["overshown_types"] = types;
  out["unsteady"] = statistics.unsteady;
  out["memory_bytes"] = statistics.memory_bytes;
  out["walk_seconds"] = statistics.walk_seconds;
  out["search_seconds"] = statistics.search_seconds;
  out["collector_enabled"] = statistics.collector_enabled;
  return out;
}

} // namespace

py::dict toPython(const HolderReport& report) {
  py::dict out;
  py::list suspects;
  for (const SuspectHolders& suspect : report.suspects) {
    suspects.append(toPython(suspect));
  }
  out["suspects"] = suspects;
  out["statistics"] = toPython(report.statistics);
  return out;
}

} // namespace leakguard
