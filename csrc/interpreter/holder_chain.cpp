#include "interpreter/holder_chain.h"

#include <cstring>
#include <utility>

namespace leakguard {

namespace {

bool isNamed(PyObject* object, const char* type) { return object && std::strcmp(Py_TYPE(object)->tp_name, type) == 0; }
bool isContextInside(PyObject* object) {
  return object && (PyContext_CheckExact(object) || std::strncmp(Py_TYPE(object)->tp_name, "hamt", 4) == 0);
}

// A nested function's name without the functions around it.
std::string functionTitle(PyObject* code) {
  const std::string name = qualifiedName(code);
  constexpr std::string_view kLocals = "<locals>.";
  const auto at = name.rfind(kLocals);
  return at == std::string::npos ? name : name.substr(at + kLocals.size());
}

std::string baseName(const std::string& file) {
  const auto slash = file.rfind('/');
  return slash == std::string::npos ? file : file.substr(slash + 1);
}

std::string inQuotes(const std::string& text) { return "'" + text + "'"; }

// "_forward_hooks" -> "forward_hook"
std::string singleHookName(std::string table) {
  if (!table.empty() && table.front() == '_') table.erase(0, 1);
  if (!table.empty() && table.back() == 's') table.pop_back();
  return table;
}

std::string defaultName(PyObject* function, long index) {
  if (function == nullptr || !PyFunction_Check(function)) return {};
  auto* f = reinterpret_cast<PyFunctionObject*>(function);
  if (f->func_defaults == nullptr || !PyTuple_Check(f->func_defaults)) return {};
  const int arguments = reinterpret_cast<PyCodeObject*>(f->func_code)->co_argcount;
  const long slot = arguments - static_cast<long>(PyTuple_GET_SIZE(f->func_defaults)) + index;
  return slot < 0 ? std::string() : textOf(lg_slot_name(f->func_code, static_cast<int>(slot)));
}

// Free variables are the last named slots of a code object, in the order of the closure tuple.
std::string freeVariableName(PyObject* function, long index) {
  if (function == nullptr || !PyFunction_Check(function)) return {};
  auto* code = reinterpret_cast<PyCodeObject*>(reinterpret_cast<PyFunctionObject*>(function)->func_code);
  const int slot = code->co_nlocalsplus - code->co_nfreevars + static_cast<int>(index);
  return textOf(lg_slot_name(reinterpret_cast<PyObject*>(code), slot));
}

void locate(HolderLink& link, const LgFrame& frame, long slot) {
  link.file = fileOf(frame.code);
  link.line = slot >= 0 ? lg_slot_line(frame.code, static_cast<int>(slot)) : -1;
  if (link.line < 0) link.line = lg_frame_line(&frame);
}

}  // namespace

// One walk along a path. Each step is judged with the two before it; `last_` is what the step before was.
class HolderChain::Folding {
 public:
  explicit Folding(const HolderChain& chain) : chain_(chain), walk_(chain.walk_) {}

  void start(NodeId node) { previous_ = node; }
  void push(Edge edge, std::string name, NodeId node) {
    links_.push_back({{wordOf(edge), std::move(name), {}, {}, {}, 0, 1}, edge, node, node});
  }
  HolderLink& back() { return links_.back().text; }

  void step(NodeId to) {
    const NodeId from = previous_;
    const ReferenceName reference = chain_.nameOf(from, to);
    PyObject* owner = walk_.objectAt(from);
    const Edge last = last_;
    last_ = reference.edge;
    switch (reference.edge) {
      case Edge::Self: merge(to); last_ = last; break;
      case Edge::Storage: last_ = last; break;
      case Edge::FunctionPart: merge(to); break;
      case Edge::InstanceDict:
      case Edge::ClassDict:
      case Edge::ModuleDict:
      case Edge::DefaultsTuple:
      case Edge::KeywordDefaults:
      case Edge::FrameObject: table_owner_ = from; break;
      case Edge::ClosureTuple: table_owner_ = from; break;
      case Edge::CellContents: cellContents(last, to); break;
      case Edge::Traceback:
        if (last == Edge::Traceback) merge(to); else push(Edge::Traceback, {}, to);
        break;
      case Edge::NextFunction:
        if (!links_.empty() && links_.back().edge == Edge::NextFunction && last == Edge::NextFunction) {
          merge(to);
          back().count++;
        } else {
          push(Edge::NextFunction, {}, to);
        }
        break;
      case Edge::Item:
      case Edge::Key: item(reference, last, to); break;
      case Edge::Attribute: attribute(owner, reference.name, to); break;
      case Edge::Local:
      case Edge::ClosureVariable:
      case Edge::Temporary: local(reference, from, to); break;
      case Edge::Nested:
        if (isContextInside(owner) || isNamed(owner, "_thread._local")) {
          table_owner_ = from;
        } else {
          push(Edge::Nested, {}, to);
        }
        break;
      case Edge::Inner: break;
      case Edge::Type: push(Edge::Attribute, "__class__", to); break;
      default: push(reference.edge, reference.name, to); break;
    }
    previous_ = to;
  }

  void beginAtModule() { last_ = Edge::ModuleDict; at_module_ = true; }

  std::vector<Link> finish() {
    for (Link& link : links_) {
      TypeText text = chain_.typeText(link.node);
      link.text.type = std::move(text.type);
      link.text.detail = std::move(text.detail);
    }
    return std::move(links_);
  }
  std::size_t size() const { return links_.size(); }

 private:
  // The link goes on to mean `to` as well; an adapter's object describes the pair better than its wrapper.
  void merge(NodeId to) {
    if (links_.empty()) return;
    Link& link = links_.back();
    const bool better = walk_.kindOf(to) >= kFirstForeign || walk_.kindOf(link.node) < kFirstForeign;
    if (better) link.node = to;
  }

  void item(const ReferenceName& reference, Edge last, NodeId to) {
    PyObject* table_owner = table_owner_ == kNoNode ? nullptr : walk_.objectAt(table_owner_);
    const bool in_attribute_table = std::exchange(in_attribute_table_, false);
    switch (last) {
      case Edge::ModuleDict: {
        const bool of_module = !at_module_ && table_owner && PyModule_Check(table_owner);
        at_module_ = false;
        push(reference.edge == Edge::Key ? Edge::Key : of_module ? Edge::Attribute : Edge::ModuleGlobal, reference.name, to);
        break;
      }
      case Edge::InstanceDict:
        if (table_owner == nullptr) push(Edge::Local, reference.name, to);    // the namespace of a frame
        else attribute(table_owner, reference.name, to);
        break;
      case Edge::ClassDict: push(Edge::ClassAttribute, reference.name, to); break;
      case Edge::ClosureTuple: closure_index_ = reference.index; last_ = Edge::ClosureTuple; break;
      case Edge::DefaultsTuple: push(Edge::Default, defaultName(table_owner, reference.index), to); break;
      case Edge::KeywordDefaults: push(Edge::Default, reference.name, to); break;
      case Edge::Hook:
      case Edge::PartialArgument:
        if (back().name.empty()) back().name = reference.name;
        merge(to);
        break;
      case Edge::CacheEntry:
        if (walk_.objectAt(previous_) && PyDict_CheckExact(walk_.objectAt(previous_))) merge(to);
        else push(reference.edge, reference.name, to);
        break;
      case Edge::Nested:
        if (table_owner && isNamed(table_owner, "_thread._local")) {
          last_ = Edge::InstanceDict;    // the item is one thread's dictionary of the local object's attributes
          break;
        }
        [[fallthrough]];
      default:
        if (in_attribute_table && !reference.name.empty()) push(Edge::Attribute, reference.name, to);
        else push(reference.edge, reference.name, to);
    }
  }

  void attribute(PyObject* owner, const std::string& name, NodeId to) {
    const auto meaning = chain_.adapter_ && owner ? chain_.adapter_->attributeMeaning(Py_TYPE(owner), name) : AttributeMeaning::Plain;
    in_attribute_table_ = false;
    switch (meaning) {
      case AttributeMeaning::Plain:
        push(Edge::Attribute, name, to);
        last_ = Edge::Attribute;
        break;
      case AttributeMeaning::Table:
        in_attribute_table_ = true;
        last_ = Edge::Attribute;
        break;
      case AttributeMeaning::HookTable:
        push(Edge::Hook, singleHookName(name), to);
        last_ = Edge::Hook;
        break;
    }
  }

  void cellContents(Edge last, NodeId to) {
    if (last == Edge::ClosureTuple) {
      push(Edge::ClosureVariable, freeVariableName(walk_.objectAt(table_owner_), closure_index_), to);
    } else {
      merge(to);    // a frame's own cell is just how the interpreter stores that local
    }
  }

  void local(const ReferenceName& reference, NodeId from, NodeId to) {
    push(reference.edge, reference.name, to);
    if (walk_.kindOf(from) == kRunningFrame) {
      locate(back(), walk_.frameAt(from).frame, reference.index);
    } else if (LgFrame frame; walk_.objectAt(from) && lg_frame_of(walk_.objectAt(from), &frame)) {
      locate(back(), frame, reference.index);
    }
  }

  const HolderChain& chain_;
  const HeapWalk& walk_;
  std::vector<Link> links_;
  NodeId previous_ = kNoNode;
  NodeId table_owner_ = kNoNode;
  Edge last_ = Edge::Unknown;
  long closure_index_ = -1;
  bool at_module_ = false;
  bool in_attribute_table_ = false;
};

ReferenceName HolderChain::nameOf(NodeId from, NodeId to) const {
  PyObject* owner = walk_.objectAt(from);
  PyObject* child = walk_.objectAt(to);
  if (walk_.kindOf(from) == kRunningFrame) return child ? nameInFrame(walk_.frameAt(from).frame, child) : ReferenceName{};
  if (adapter_ && (!owner || !child || adapter_->ownsType(Py_TYPE(owner)))) {
    auto name = adapter_->nameOf(walk_.kindOf(from), walk_.addressOf(from), walk_.kindOf(to), walk_.addressOf(to));
    if (name.edge != Edge::Unknown || !owner || !child) return name;
  }
  return owner && child ? nameReference(owner, child) : ReferenceName{};
}

TypeText HolderChain::typeText(NodeId node) const {
  if (walk_.kindOf(node) == kRunningFrame) return {"frame", functionTitle(walk_.frameAt(node).frame.code)};
  PyObject* object = walk_.objectAt(node);
  if (adapter_ && (!object || adapter_->ownsType(Py_TYPE(object)))) {
    return adapter_->typeText(walk_.kindOf(node), walk_.addressOf(node));
  }
  if (!object) return {};
  PyTypeObject* type = Py_TYPE(object);
  auto items = [](Py_ssize_t count) { return std::to_string(count) + (count == 1 ? " item" : " items"); };
  if (PyFunction_Check(object)) return {"function", functionTitle(reinterpret_cast<PyFunctionObject*>(object)->func_code)};
  if (PyType_Check(object)) return {"class", shortTypeName(reinterpret_cast<PyTypeObject*>(object))};
  if (PyModule_Check(object)) return {"module", textOf(lookUp(PyModule_GetDict(object), "__name__"))};
  LgFrame frame;
  if (lg_frame_of(object, &frame)) return {shortTypeName(type), functionTitle(frame.code)};
  if (PyList_Check(object)) return {shortTypeName(type), items(PyList_GET_SIZE(object))};
  if (PyDict_Check(object)) return {shortTypeName(type), items(PyDict_GET_SIZE(object))};
  if (PyAnySet_Check(object)) return {shortTypeName(type), items(PySet_GET_SIZE(object))};
  if (isNamed(object, "collections.deque")) return {shortTypeName(type), items(Py_SIZE(object))};
  return {shortTypeName(type), {}};
}

std::vector<HolderChain::Link> HolderChain::fromRoot(const HeapWalk::Root& root, const std::vector<NodeId>& nodes) const {
  Folding folding(*this);
  folding.start(nodes.front());
  switch (root.kind) {
    case RootKind::ModuleGlobals: folding.beginAtModule(); break;
    case RootKind::RunningFrame:
    case RootKind::ContextVariables: break;
    case RootKind::Temporary: {
      folding.push(Edge::Temporary, {}, nodes.front());
      locate(folding.back(), walk_.frameAt(root.frame).frame, -1);
      break;
    }
    case RootKind::ExceptionRaised:
    case RootKind::ExceptionHandled: folding.push(Edge::ExceptionState, {}, nodes.front()); break;
    default: folding.push(Edge::InterpreterState, {}, nodes.front()); break;
  }
  for (std::size_t i = 1; i < nodes.size(); i++) folding.step(nodes[i]);
  auto links = folding.finish();
  if (root.kind == RootKind::ModuleGlobals && !links.empty()) {
    PyObject* file = lookUp(walk_.objectAt(root.node), "__file__");
    if (file != nullptr && PyUnicode_Check(file)) links.front().text.file = textOf(file, 4096);
  }
  return links;
}

std::vector<HolderChain::Link> HolderChain::fromNative(const std::vector<NodeId>& nodes) const {
  Folding folding(*this);
  folding.start(nodes.front());
  folding.push(Edge::Native, {}, nodes.front());
  for (std::size_t i = 1; i < nodes.size(); i++) folding.step(nodes[i]);
  return folding.finish();
}

std::vector<HolderChain::Link> HolderChain::fromCycle(const std::vector<NodeId>& ring, const std::vector<NodeId>& way,
                                                      std::size_t& cycle_links) const {
  Folding folding(*this);
  folding.start(ring.front());
  folding.push(Edge::Cycle, {}, ring.front());
  for (std::size_t i = 1; i < ring.size(); i++) folding.step(ring[i]);
  cycle_links = folding.size();
  for (std::size_t i = 1; i < way.size(); i++) folding.step(way[i]);
  return folding.finish();
}

HolderRoot HolderChain::describeRoot(const HeapWalk::Root& root, const std::vector<Link>& links) const {
  HolderRoot out;
  const HolderLink* first = links.empty() ? nullptr : &links.front().text;
  if (root.thread != 0 && root.thread != lg_current_thread()) {
    out.thread = threadName(root.thread);
    if (out.thread.empty()) out.thread = "another thread";
  }
  switch (root.kind) {
    case RootKind::ModuleGlobals:
      out.kind = "module global";
      out.module = moduleTitle(root.module_name, walk_.objectAt(root.node));
      out.name = first ? first->name : "";
      out.text = out.kind + " " + out.module + (out.name.empty() ? "" : "." + out.name);
      if (first) out.file = first->file;
      return out;
    case RootKind::RunningFrame:
    case RootKind::Temporary: {
      out.kind = first ? first->edge : "frame";
      out.name = first ? first->name : "";
      const LgFrame& frame = walk_.frameAt(root.frame).frame;
      PyObject* code = frame.code;
      out.function = functionTitle(code);
      out.file = fileOf(code);
      out.line = first && first->line > 0 ? first->line : lg_frame_line(&frame);
      out.text = out.kind + (out.name.empty() ? "" : " " + inQuotes(out.name)) + " in " + out.function + (out.function.front() == '<' ? "" : "()") + " at " +
                 baseName(out.file) + ":" + std::to_string(out.line);
      break;
    }
    case RootKind::ExceptionRaised: out.kind = "exception being raised"; break;
    case RootKind::ExceptionHandled: out.kind = "exception being handled"; break;
    case RootKind::ThreadDictionary: out.kind = "thread state"; break;
    case RootKind::ContextVariables:
      out.kind = "context variable";
      out.name = first ? first->name : "";
      break;
    case RootKind::TraceFunction: out.kind = "trace function"; break;
    case RootKind::ProfileFunction: out.kind = "profile function"; break;
    case RootKind::AsyncState: out.kind = "asynchronous generator hooks"; break;
    case RootKind::AtexitCallback: out.kind = "atexit callback"; break;
    case RootKind::Interpreter: out.kind = "interpreter"; break;
    case RootKind::Native: out.kind = "native reference"; break;
  }
  if (out.text.empty()) out.text = out.kind + (out.name.empty() ? "" : " " + inQuotes(out.name));
  if (!out.thread.empty()) out.text += ", thread " + inQuotes(out.thread);
  return out;
}

}  // namespace leakguard
