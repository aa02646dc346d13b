#pragma once

#include <Python.h>

#include <cstdint>
#include <vector>

#include "core/address_table.h"
#include "core/object_graph.h"
#include "interpreter/edge_adapter.h"
#include "interpreter/notebook_history.h"
#include "interpreter/object_references.h"
#include "interpreter/roots.h"

namespace leakguard {

// One pass over everything the process holds: Python objects, running frames and an adapter's objects become numbered
// nodes, every counted reference an edge. Needs the GIL from construction to destruction, never releases it, creates no
// Python object and runs no user code until the pins are dropped (dropping a last reference may run a finalizer).
// The caller keeps the collector disabled meanwhile. May throw std::bad_alloc, nothing else.
class HeapWalk final : private EdgeSink {
 public:
  // adapter may be null and must outlive the walk.
  HeapWalk(EdgeAdapter* adapter, int muted_frames);
  ~HeapWalk() {
    releasePins();
  }
  HeapWalk(const HeapWalk&) = delete;
  HeapWalk& operator=(const HeapWalk&) = delete;

  void run();

  const ObjectGraph& graph() const noexcept {
    return graph_;
  }
  std::size_t nodeCount() const noexcept {
    return addresses_.size();
  }
  NodeId find(const void* address) const noexcept {
    return address ? table_.find(address) : kNoNode;
  }
  NodeKind kindOf(NodeId node) const noexcept {
    return kinds_[node];
  }
  void* addressOf(NodeId node) const noexcept {
    return addresses_[node];
  }
  PyObject* objectAt(NodeId node) const noexcept {
    return kinds_[node] == kPythonObject ? static_cast<PyObject*>(addresses_[node]) : nullptr;
  }
  const RunningFrame& frameAt(NodeId node) const noexcept {
    return frames_[node - first_frame_];
  }
  // Generation of a collectable object: 0, 1, 2, LG_PERMANENT; -1 for what the collector does not know.
  int generationOf(NodeId node) const noexcept;

  struct Root {
    NodeId node;
    RootKind kind;
    RootRank rank;
    bool muted;
    bool counted;
    unsigned long thread;
    PyObject* module_name; // of ModuleGlobals
    NodeId frame; // of RunningFrame and Temporary
  };
  const std::vector<Root>& roots() const noexcept {
    return roots_;
  }
  // Nodes with more references than were found, and immortal ones, which need none to stay.
  const std::vector<NodeId>& nativelyHeld() const noexcept {
    return natively_held_;
  }
  // Nodes with more references found than their count says. Must be empty: see Note [The accounting must close].
  const std::vector<NodeId>& overshown() const noexcept {
    return overshown_;
  }
  // The Out of an IPython session, null without one.
  PyObject* sessionOutputs() const noexcept {
    return history_.outputs();
  }
  // References to node that nothing in the graph explains; 0 for frames and for what is not counted.
  long excess(NodeId node) const;
  // Every adapter's object, in ascending order.
  std::vector<NodeId> foreignNodes() const;

  // Drops the references taken on the adapter's objects; true if one of them was the last.
  bool releasePins() noexcept;
  std::size_t memoryBytes() const noexcept;
  // Objects another thread changed, without the GIL, while they were looked at.
  std::size_t unsteady() const noexcept {
    return unsteady_;
  }

 private:
  struct Shown {
    void* address;
    NodeKind kind;
  };
  struct Foreign {
    NodeId node;
    long references; // before the pin; -1 unknown
  };

  void object(PyObject* object) override {
    if (object) {
      shown_.push_back({object, kPythonObject});
    }
  }
  void foreign(NodeKind kind, void* address) override;

  void numberCollectable();
  void numberRoots();
  void expandAll();
  void expand(NodeId node);
  void account();
  void adoptTemporaries();
  NodeId intern(void* address, NodeKind kind);
  NodeId resolve(const Shown& shown);
  const Foreign* foreignAt(NodeId node) const noexcept;

  EdgeAdapter* adapter_;
  int muted_frames_;
  ObjectReferences references_;
  NotebookHistory history_;
  AddressTable table_;
  std::vector<void*> addresses_;
  std::vector<NodeKind> kinds_;
  std::vector<std::pair<NodeId, int>> generations_; // first node of each run of one generation
  NodeId collectable_ = 0;
  NodeId first_frame_ = 0;
  std::vector<RunningFrame> frames_;
  std::vector<Root> roots_;
  std::vector<Foreign> foreign_;
  bool pinned_ = false;
  std::vector<Shown> shown_;
  ObjectGraph graph_;
  std::vector<std::uint32_t> found_;
  std::vector<NodeId> natively_held_;
  std::vector<NodeId> overshown_;
  std::size_t unsteady_ = 0;
};

} // namespace leakguard
