#include "interpreter/heap_walk.h"

#include <algorithm>

namespace leakguard {

HeapWalk::HeapWalk(EdgeAdapter* adapter, int muted_frames)
    : adapter_(adapter), muted_frames_(muted_frames), references_(adapter) {}

void HeapWalk::run() {
  history_.find();
  numberCollectable();
  numberRoots();
  expandAll();
  account();
}

void HeapWalk::foreign(NodeKind kind, void* address) {
  if (address == nullptr) {
    return;
  }
  const std::size_t before = addresses_.size();
  const NodeId node = intern(address, kind);
  if (addresses_.size() > before) {
    foreign_.push_back({node, -1}); // room for the record first: a pin without one would never be dropped
    foreign_.back().references = adapter_->pin(kind, address);
    pinned_ = true;
  }
  shown_.push_back({address, kind});
}

NodeId HeapWalk::intern(void* address, NodeKind kind) {
  const auto next = static_cast<NodeId>(addresses_.size());
  const NodeId node = table_.insert(address, next);
  if (node == next) {
    addresses_.push_back(address);
    kinds_.push_back(kind);
  }
  return node;
}

NodeId HeapWalk::resolve(const Shown& shown) {
  if (shown.kind != kPythonObject) {
    return table_.find(shown.address);
  }
  auto* object = static_cast<PyObject*>(shown.address);
  return object != Py_None && references_.holdsAnything(object) ? intern(object, kPythonObject) : kNoNode;
}

void HeapWalk::numberCollectable() {
  struct Listing {
    HeapWalk& walk;
    int generation;
  } listing{*this, -1};
  // copied first: the links of the lists are scattered, an array can be prefetched
  lg_visit_collectable(
      [](PyObject* object, int generation, void* context) {
        auto& into = *static_cast<Listing*>(context);
        if (generation != into.generation) {
          into.walk.generations_.emplace_back(static_cast<NodeId>(into.walk.addresses_.size()), generation);
          into.generation = generation;
        }
        into.walk.addresses_.push_back(object);
      },
      &listing);
  const std::size_t count = addresses_.size();
  collectable_ = static_cast<NodeId>(count);
  table_.reserve(count + count / 4);
  kinds_.assign(count, kPythonObject);
  constexpr std::size_t kAhead = 12;
  for (std::size_t i = 0; i < count; i++) {
    if (i + kAhead < count) {
      table_.prefetch(addresses_[i + kAhead]);
    }
    table_.insert(addresses_[i], static_cast<NodeId>(i));
  }
}

void HeapWalk::numberRoots() {
  Roots roots = collectRoots(muted_frames_);
  frames_ = std::move(roots.frames);
  first_frame_ = static_cast<NodeId>(addresses_.size());
  for (const RunningFrame& frame : frames_) {
    const NodeId node = intern(frame.frame.frame, kRunningFrame);
    const RootRank rank = frame.library ? RootRank::LibraryFrame : RootRank::User;
    roots_.push_back({node, RootKind::RunningFrame, rank, frame.muted, false, frame.thread, nullptr, node});
  }
  // A running generator's variables are shown by its frame or by its object, whichever owns them at the moment.
  for (NodeId i = 0; i < frames_.size(); i++) {
    if (frames_[i].frame.generator == nullptr) {
      continue;
    }
    const NodeId generator = resolve({frames_[i].frame.generator, kPythonObject});
    roots_.push_back(roots_[i]);
    roots_.back().node = generator;
  }
  for (const RootObject& root : roots.objects) {
    const NodeId node = resolve({root.object, kPythonObject});
    if (node == kNoNode) {
      continue;
    }
    roots_.push_back({node, root.kind, root.rank, false, root.counted, root.thread, root.module_name, kNoNode});
  }
}

void HeapWalk::expand(NodeId node) {
  void* address = addresses_[node];
  if (kinds_[node] == kRunningFrame) {
    ObjectReferences::showFrame(frameAt(node).frame, *this);
  } else if (kinds_[node] >= kFirstForeign) {
    adapter_->showForeign(kinds_[node], address, foreignAt(node)->references, *this);
  } else if (auto* object = static_cast<PyObject*>(address); history_.concerns(object)) {
    history_.show(object, references_, *this);
  } else {
    references_.show(object, *this);
  }
}

void HeapWalk::expandAll() {
  graph_.reserve(addresses_.size() + addresses_.size() / 4, addresses_.size() * 2);
  // In blocks, so that the many cache misses overlap: show the references of some objects, then look all of them up.
  constexpr NodeId kBlock = 32;
  constexpr NodeId kAhead = 8;
  std::size_t ends[kBlock];
  for (NodeId first = 0; first < addresses_.size();) {
    const auto count = static_cast<NodeId>(std::min<std::size_t>(kBlock, addresses_.size() - first));
    shown_.clear();
    for (NodeId i = 0; i < count; i++) {
      if (first + i + kAhead < addresses_.size()) {
        __builtin_prefetch(addresses_[first + i + kAhead]);
      }
      expand(first + i);
      ends[i] = shown_.size();
    }
    for (const Shown& shown : shown_) {
      __builtin_prefetch(shown.address);
      table_.prefetch(shown.address);
    }
    std::size_t next = 0;
    for (NodeId i = 0; i < count; i++) {
      graph_.beginNode();
      for (; next < ends[i]; next++) {
        const NodeId to = resolve(shown_[next]);
        if (to != kNoNode) {
          graph_.addEdge(to);
        }
      }
    }
    first += count;
  }
  graph_.finish();
  std::vector<Shown>().swap(shown_);
}

void HeapWalk::account() {
  found_ = graph_.inDegrees();
  for (const Root& root : roots_) {
    if (root.counted) {
      found_[root.node]++;
    }
  }
  // Our own pin makes a single owner two, and a C++ object with two owners holds its wrapper.
  for (const Foreign& foreign : foreign_) {
    if (foreign.references != 1) {
      continue;
    }
    const NodeId wrapper = find(adapter_->wrapper(kinds_[foreign.node], addresses_[foreign.node]));
    if (wrapper != kNoNode) {
      found_[wrapper]++;
    }
  }
  adoptTemporaries();
  constexpr NodeId kAhead = 16;
  for (NodeId node = 0; node < nodeCount(); node++) {
    if (node + kAhead < nodeCount()) {
      __builtin_prefetch(addresses_[node + kAhead]);
    }
    const long unexplained = excess(node);
    const bool immortal = kinds_[node] == kPythonObject && lg_is_immortal(objectAt(node));
    if (unexplained > 0 || immortal) {
      natively_held_.push_back(node);
    }
    if (unexplained >= 0) {
      continue;
    }
    const Foreign* foreign = foreignAt(node);
    const bool changed = foreign && adapter_->references(kinds_[node], addresses_[node]) - 1 != foreign->references;
    if (changed) {
      unsteady_++;
    } else {
      overshown_.push_back(node);
    }
  }
}

// While a frame runs, the depth of its value stack is in a register, and slots above it keep stale pointers. A slot is
// believed only if its object has a reference that nothing else explains.
void HeapWalk::adoptTemporaries() {
  for (NodeId i = 0; i < frames_.size(); i++) {
    const RunningFrame& running = frames_[i];
    const LgFrame& frame = running.frame;
    for (int slot = 0; frame.stack_depth < 0 && slot < frame.stack_limit; slot++) {
      const NodeId node = find(frame.slots[frame.named_slots + slot]);
      if (node == kNoNode || kinds_[node] != kPythonObject || excess(node) <= 0) {
        continue;
      }
      found_[node]++;
      // One step nearer than a local of the same frame would be: a variable with a name is the better answer.
      roots_.push_back(
          {node,
           RootKind::Temporary,
           running.library ? RootRank::ThreadState : RootRank::LibraryModule,
           running.muted,
           true,
           running.thread,
           nullptr,
           first_frame_ + i});
    }
  }
}

const HeapWalk::Foreign* HeapWalk::foreignAt(NodeId node) const noexcept {
  if (kinds_[node] < kFirstForeign) {
    return nullptr;
  }
  return &*std::lower_bound(foreign_.begin(), foreign_.end(), node, [](const Foreign& foreign, NodeId wanted) {
    return foreign.node < wanted;
  });
}

long HeapWalk::excess(NodeId node) const {
  if (kinds_[node] == kRunningFrame) {
    return 0;
  }
  if (const Foreign* foreign = foreignAt(node)) {
    return foreign->references < 0 ? 0 : foreign->references - static_cast<long>(found_[node]);
  }
  PyObject* object = objectAt(node);
  return lg_is_immortal(object) ? 0 : static_cast<long>(Py_REFCNT(object)) - static_cast<long>(found_[node]);
}

int HeapWalk::generationOf(NodeId node) const noexcept {
  if (node >= collectable_) {
    return -1;
  }
  const auto after =
      std::upper_bound(generations_.begin(), generations_.end(), node, [](NodeId wanted, const auto& run) {
        return wanted < run.first;
      });
  return after == generations_.begin() ? -1 : std::prev(after)->second;
}

std::vector<NodeId> HeapWalk::foreignNodes() const {
  std::vector<NodeId> nodes;
  for (const Foreign& foreign : foreign_) {
    nodes.push_back(foreign.node);
  }
  return nodes;
}

bool HeapWalk::releasePins() noexcept {
  if (!pinned_) {
    return false;
  }
  pinned_ = false;
  bool last = false;
  for (const Foreign& foreign : foreign_) {
    const NodeKind kind = kinds_[foreign.node];
    void* address = addresses_[foreign.node];
    if (foreign.references < 0) {
      continue;
    }
    last |= adapter_->references(kind, address) == 1;
    adapter_->unpin(kind, address);
  }
  return last;
}

std::size_t HeapWalk::memoryBytes() const noexcept {
  return table_.memoryBytes() + graph_.memoryBytes() + addresses_.capacity() * sizeof(void*) + kinds_.capacity() +
      found_.capacity() * sizeof(std::uint32_t) + foreign_.capacity() * sizeof(Foreign);
}

} // namespace leakguard
