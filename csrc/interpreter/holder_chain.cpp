#include "interpreter/holder_chain.h"

#include <cstring>

#include "interpreter/chain_folding.h"

namespace leakguard {

ReferenceName HolderChain::nameOf(NodeId from, NodeId to) const {
  PyObject* owner = walk_.objectAt(from);
  PyObject* child = walk_.objectAt(to);
  if (walk_.kindOf(from) == kRunningFrame) {
    return child ? nameInFrame(walk_.frameAt(from).frame, child) : ReferenceName{};
  }
  if (adapter_ && (!owner || !child || adapter_->ownsType(Py_TYPE(owner)))) {
    auto name = adapter_->nameOf(walk_.kindOf(from), walk_.addressOf(from), walk_.kindOf(to), walk_.addressOf(to));
    if (name.edge != Edge::Unknown || !owner || !child) {
      return name;
    }
  }
  auto name = owner && child ? nameReference(owner, child) : ReferenceName{};
  if (owner != nullptr && owner == walk_.sessionOutputs() && name.edge != Edge::Item) {
    return {Edge::Item}; // no longer in Out, but still one of the last results
  }
  return name;
}

TypeText HolderChain::typeText(NodeId node) const {
  if (walk_.kindOf(node) == kRunningFrame) {
    return {"frame", functionTitle(walk_.frameAt(node).frame.code)};
  }
  PyObject* object = walk_.objectAt(node);
  if (adapter_ && (!object || adapter_->ownsType(Py_TYPE(object)))) {
    return adapter_->typeText(walk_.kindOf(node), walk_.addressOf(node));
  }
  if (!object) {
    return {};
  }
  PyTypeObject* type = Py_TYPE(object);
  auto items = [](Py_ssize_t count) { return std::to_string(count) + (count == 1 ? " item" : " items"); };
  if (PyFunction_Check(object)) {
    return {"function", functionTitle(reinterpret_cast<PyFunctionObject*>(object)->func_code)};
  }
  if (PyType_Check(object)) {
    return {"class", shortTypeName(reinterpret_cast<PyTypeObject*>(object))};
  }
  if (PyModule_Check(object)) {
    return {"module", textOf(lookUp(PyModule_GetDict(object), "__name__"))};
  }
  LgFrame frame;
  if (lg_frame_of(object, &frame)) {
    return {shortTypeName(type), functionTitle(frame.code)};
  }
  if (PyList_Check(object)) {
    return {shortTypeName(type), items(PyList_GET_SIZE(object))};
  }
  if (PyDict_Check(object)) {
    return {shortTypeName(type), items(PyDict_GET_SIZE(object))};
  }
  if (PyAnySet_Check(object)) {
    return {shortTypeName(type), items(PySet_GET_SIZE(object))};
  }
  if (std::strcmp(type->tp_name, "collections.deque") == 0) {
    return {shortTypeName(type), items(Py_SIZE(object))};
  }
  return {shortTypeName(type), {}};
}

std::vector<HolderChain::Link> HolderChain::fromRoot(const HeapWalk::Root& root, const std::vector<NodeId>& nodes)
    const {
  ChainFolding folding(*this, walk_, adapter_);
  folding.begin(nodes.front());
  switch (root.kind) {
    case RootKind::ModuleGlobals:
      folding.beginAtModule();
      break;
    case RootKind::RunningFrame:
    case RootKind::ContextVariables:
      break;
    case RootKind::Temporary: {
      folding.push(Edge::Temporary, {}, nodes.front());
      folding.locate(walk_.frameAt(root.frame).frame, -1);
      break;
    }
    case RootKind::ExceptionRaised:
    case RootKind::ExceptionHandled:
      folding.push(Edge::ExceptionState, {}, nodes.front());
      break;
    default:
      folding.push(Edge::InterpreterState, {}, nodes.front());
      break;
  }
  for (std::size_t i = 1; i < nodes.size(); i++) {
    folding.step(nodes[i]);
  }
  auto links = folding.finish();
  if (root.kind == RootKind::ModuleGlobals && !links.empty()) {
    nameGlobalOfSession(root, links.front());
    PyObject* file = lookUp(walk_.objectAt(root.node), "__file__");
    if (file != nullptr && PyUnicode_Check(file)) {
      links.front().text.file = textOf(file, 4096);
    }
  }
  return links;
}

// Globals that no program has chosen to keep: a session's results, the exception that was reported last.
void HolderChain::nameGlobalOfSession(const HeapWalk::Root& root, Link& first) const {
  if (PyObject* outputs = walk_.sessionOutputs(); outputs != nullptr && walk_.objectAt(first.entered) == outputs) {
    first.text.edge = kNotebookOutput;
    first.text.name = "Out";
  } else if (
      textOf(root.module_name) == "sys" &&
      (first.text.name == "last_exc" || first.text.name == "last_value" || first.text.name == "last_traceback")) {
    first.text.edge = kLastException;
    first.text.name = "sys." + first.text.name;
  }
}

std::vector<HolderChain::Link> HolderChain::fromNative(const std::vector<NodeId>& nodes) const {
  ChainFolding folding(*this, walk_, adapter_);
  folding.begin(nodes.front());
  folding.push(Edge::Native, {}, nodes.front());
  for (std::size_t i = 1; i < nodes.size(); i++) {
    folding.step(nodes[i]);
  }
  return folding.finish();
}

std::vector<HolderChain::Link> HolderChain::fromCycle(
    const std::vector<NodeId>& ring,
    const std::vector<NodeId>& way,
    std::size_t& cycle_links) const {
  ChainFolding folding(*this, walk_, adapter_);
  folding.begin(ring.front());
  folding.push(Edge::Cycle, {}, ring.front());
  for (std::size_t i = 1; i < ring.size(); i++) {
    folding.step(ring[i]);
  }
  folding.endRing();
  for (std::size_t i = 1; i < way.size(); i++) {
    folding.step(way[i]);
  }
  auto links = folding.finish();
  cycle_links = folding.ringLinks();
  return links;
}

} // namespace leakguard
