#include "interpreter/chain_folding.h"

#include <cstring>
#include <utility>

namespace leakguard {

namespace {

bool isNamed(PyObject* object, const char* type) {
  return object && std::strcmp(Py_TYPE(object)->tp_name, type) == 0;
}
bool isContextInside(PyObject* object) {
  return object && (PyContext_CheckExact(object) || std::strncmp(Py_TYPE(object)->tp_name, "hamt", 4) == 0);
}

// "_forward_hooks" -> "forward_hook"
std::string singleHookName(std::string table) {
  if (!table.empty() && table.front() == '_') {
    table.erase(0, 1);
  }
  if (!table.empty() && table.back() == 's') {
    table.pop_back();
  }
  return table;
}

std::string defaultName(PyObject* function, long index) {
  if (function == nullptr || !PyFunction_Check(function)) {
    return {};
  }
  auto* f = reinterpret_cast<PyFunctionObject*>(function);
  if (f->func_defaults == nullptr || !PyTuple_Check(f->func_defaults)) {
    return {};
  }
  const int arguments = reinterpret_cast<PyCodeObject*>(f->func_code)->co_argcount;
  const long slot = arguments - static_cast<long>(PyTuple_GET_SIZE(f->func_defaults)) + index;
  return slot < 0 ? std::string() : textOf(lg_slot_name(f->func_code, static_cast<int>(slot)));
}

// Free variables are the last named slots of a code object, in the order of the closure tuple.
std::string freeVariableName(PyObject* function, long index) {
  if (function == nullptr || !PyFunction_Check(function)) {
    return {};
  }
  auto* code = reinterpret_cast<PyCodeObject*>(reinterpret_cast<PyFunctionObject*>(function)->func_code);
  const int slot = code->co_nlocalsplus - code->co_nfreevars + static_cast<int>(index);
  return textOf(lg_slot_name(reinterpret_cast<PyObject*>(code), slot));
}

} // namespace

void ChainFolding::beginAtModule() {
  last_ = Edge::ModuleDict;
  at_module_ = true;
}

void ChainFolding::push(Edge edge, std::string name, NodeId node) {
  links_.push_back({{wordOf(edge), std::move(name), {}, {}, {}, 0, 1}, edge, node, node});
}

void ChainFolding::locate(const LgFrame& frame, long slot) {
  HolderLink& link = links_.back().text;
  link.file = fileOf(frame.code);
  link.line = slot >= 0 ? lg_slot_line(frame.code, static_cast<int>(slot)) : -1;
  if (link.line < 0) {
    link.line = lg_frame_line(&frame);
  }
}

std::vector<ChainFolding::Link> ChainFolding::finish() {
  for (Link& link : links_) {
    TypeText text = chain_.typeText(link.node);
    link.text.type = std::move(text.type);
    link.text.detail = std::move(text.detail);
  }
  return std::move(links_);
}

PyObject* ChainFolding::tableOwner() const {
  return table_owner_ == kNoNode ? nullptr : walk_.objectAt(table_owner_);
}

// The last link goes on to mean `to` as well; an adapter's object describes the pair better than its wrapper.
void ChainFolding::merge(NodeId to) {
  if (links_.empty()) {
    return;
  }
  Link& link = links_.back();
  if (walk_.kindOf(to) >= kFirstForeign || walk_.kindOf(link.node) < kFirstForeign) {
    link.node = to;
  }
}

void ChainFolding::step(NodeId to) {
  const NodeId from = std::exchange(previous_, to);
  const ReferenceName reference = chain_.nameOf(from, to);
  PyObject* owner = walk_.objectAt(from);
  const Edge last = std::exchange(last_, reference.edge);
  switch (reference.edge) {
    case Edge::Self:
      merge(to);
      last_ = last;
      break;
    case Edge::Storage:
      last_ = last;
      break;
    case Edge::FunctionPart:
      merge(to);
      break;
    case Edge::InstanceDict:
    case Edge::ClassDict:
    case Edge::ModuleDict:
    case Edge::ClosureTuple:
    case Edge::DefaultsTuple:
    case Edge::KeywordDefaults:
      table_owner_ = from;
      break;
    case Edge::FrameObject:
    case Edge::Inner:
      break;
    case Edge::CellContents:
      cellContents(last, to);
      break;
    case Edge::Traceback:
      last == Edge::Traceback ? merge(to) : push(Edge::Traceback, {}, to);
      break;
    case Edge::NextFunction:
      nextFunction(last, to);
      break;
    case Edge::Item:
    case Edge::Key:
      item(reference, last, to);
      break;
    case Edge::Attribute:
      attribute(owner, reference.name, to);
      break;
    case Edge::Local:
    case Edge::ClosureVariable:
    case Edge::Temporary:
      local(reference, from, to);
      break;
    case Edge::Nested:
      if (isContextInside(owner) || isNamed(owner, "_thread._local")) {
        table_owner_ = from;
      } else {
        push(Edge::Nested, {}, to);
      }
      break;
    case Edge::Type:
      push(Edge::Attribute, "__class__", to);
      break;
    default:
      push(reference.edge, reference.name, to);
      break;
  }
}

void ChainFolding::nextFunction(Edge last, NodeId to) {
  if (last == Edge::NextFunction && !links_.empty() && links_.back().edge == Edge::NextFunction) {
    merge(to);
    links_.back().text.count++;
  } else {
    push(Edge::NextFunction, {}, to);
  }
}

void ChainFolding::itemOfModule(const ReferenceName& reference, NodeId to) {
  const bool of_a_module_object = !std::exchange(at_module_, false) && tableOwner() && PyModule_Check(tableOwner());
  if (reference.edge == Edge::Key) {
    push(Edge::Key, reference.name, to);
  } else {
    push(of_a_module_object ? Edge::Attribute : Edge::ModuleGlobal, reference.name, to);
  }
}

void ChainFolding::item(const ReferenceName& reference, Edge last, NodeId to) {
  const bool in_attribute_table = std::exchange(in_attribute_table_, false) && !reference.name.empty();
  switch (last) {
    case Edge::ModuleDict:
      itemOfModule(reference, to);
      return;
    case Edge::InstanceDict:
      if (tableOwner()) {
        attribute(tableOwner(), reference.name, to);
      } else {
        push(Edge::Local, reference.name, to); // the namespace of a frame
      }
      return;
    case Edge::ClassDict:
      push(Edge::ClassAttribute, reference.name, to);
      return;
    case Edge::ClosureTuple:
      closure_index_ = reference.index;
      last_ = Edge::ClosureTuple;
      return;
    case Edge::DefaultsTuple:
      push(Edge::Default, defaultName(tableOwner(), reference.index), to);
      return;
    case Edge::KeywordDefaults:
      push(Edge::Default, reference.name, to);
      return;
    case Edge::Hook:
    case Edge::PartialArgument:
      if (links_.back().text.name.empty()) {
        links_.back().text.name = reference.name;
      }
      merge(to);
      return;
    case Edge::CacheEntry:
      if (PyObject* entries = walk_.objectAt(links_.back().node); entries && PyDict_CheckExact(entries)) {
        merge(to); // an unbounded cache keeps its entries in a dictionary
        return;
      }
      break;
    case Edge::Nested:
      if (isNamed(tableOwner(), "_thread._local")) {
        last_ = Edge::InstanceDict; // one thread's dictionary of the local object's attributes
        return;
      }
      break;
    default:
      break;
  }
  push(in_attribute_table ? Edge::Attribute : reference.edge, reference.name, to);
}

void ChainFolding::attribute(PyObject* owner, const std::string& name, NodeId to) {
  auto meaning = AttributeMeaning::Plain;
  if (adapter_ && owner) {
    meaning = adapter_->attributeMeaning(Py_TYPE(owner), name);
  }
  in_attribute_table_ = meaning == AttributeMeaning::Table;
  last_ = Edge::Attribute;
  if (meaning == AttributeMeaning::Plain) {
    push(Edge::Attribute, name, to);
  } else if (meaning == AttributeMeaning::HookTable) {
    push(Edge::Hook, singleHookName(name), to);
    last_ = Edge::Hook;
  }
}

void ChainFolding::cellContents(Edge last, NodeId to) {
  if (last == Edge::ClosureTuple) {
    push(Edge::ClosureVariable, freeVariableName(tableOwner(), closure_index_), to);
  } else {
    merge(to); // a frame's own cell is just how the interpreter stores that local
  }
}

void ChainFolding::local(const ReferenceName& reference, NodeId from, NodeId to) {
  push(reference.edge, reference.name, to);
  LgFrame frame;
  if (walk_.kindOf(from) == kRunningFrame) {
    locate(walk_.frameAt(from).frame, reference.index);
  } else if (walk_.objectAt(from) && lg_frame_of(walk_.objectAt(from), &frame)) {
    locate(frame, reference.index);
  }
}

} // namespace leakguard
