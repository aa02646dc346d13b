#include "interpreter/owner_search.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "interpreter/container_limit.h"

namespace leakguard {

namespace {

// A search costs some tens of milliseconds for a million nodes: more holders than this are not compared.
constexpr std::size_t kMostHolders = 32;
constexpr std::size_t kMostShared = 8;

enum Tier : std::size_t { kNamed, kNative, kMuted };

bool entersGraph(Edge edge) {
  return edge == Edge::GradFn || edge == Edge::NextFunction;
}
bool isItem(Edge edge) {
  return edge == Edge::Item || edge == Edge::Key || edge == Edge::CacheEntry;
}

std::size_t lastNameBeforeGraph(const std::vector<HolderChain::Link>& links) {
  std::size_t last = 0;
  while (last + 1 < links.size() && !entersGraph(links[last + 1].edge)) {
    last++;
  }
  return last;
}

} // namespace

OwnerSearch::OwnerSearch(const HeapWalk& walk, EdgeAdapter* adapter, const HolderChain& chain, const HolderQuery& query)
    : walk_(walk), adapter_(adapter), chain_(chain), query_(query) {
  for (const HeapWalk::Root& root : walk_.roots()) {
    if (root.muted) {
      muted_.push_back({root.node, 0});
    } else {
      named_.push_back({root.node, static_cast<std::uint32_t>(root.rank)});
      named_roots_.push_back(&root);
    }
  }
  for (NodeId node : walk_.nativelyHeld()) {
    native_.push_back({node, 0});
  }
  for (const void* address : query_.addresses) {
    suspects_.push_back(walk_.find(address));
  }
  owners_.resize(suspects_.size());
  if (adapter_ == nullptr) {
    return;
  }
  for (NodeId node : walk_.foreignNodes()) {
    const std::uint64_t bytes = adapter_->bytes(walk_.kindOf(node), walk_.addressOf(node));
    if (bytes > 0) {
      weights_.emplace_back(node, bytes);
    }
  }
}

void OwnerSearch::run(std::vector<SuspectHolders>& out) {
  findFirstOwners(out);
  findOtherOwners();
  findSharedOwners();
  weigh(out);
}

ShortestPaths OwnerSearch::search(const std::vector<NodeId>& closed) const {
  ShortestPaths paths(walk_.graph());
  for (NodeId node : closed) {
    paths.close(node);
  }
  paths.spread(named_);
  paths.spread(native_);
  return paths;
}

OwnerSearch::Owner OwnerSearch::ownerFrom(const ShortestPaths::Path& path) const {
  Owner owner;
  owner.native = path.tier == kNative;
  owner.nodes = path.nodes;
  if (owner.native) {
    owner.root = {path.nodes.front(), RootKind::Native, RootRank::ThreadState, false, false, 0, nullptr, kNoNode};
    owner.links = chain_.fromNative(path.nodes);
  } else {
    owner.root = *named_roots_[path.root];
    owner.links = chain_.fromRoot(owner.root, path.nodes);
  }
  return owner;
}

void OwnerSearch::findFirstOwners(std::vector<SuspectHolders>& out) {
  ShortestPaths paths = search({});
  paths.spread(muted_);
  for (std::size_t i = 0; i < suspects_.size(); i++) {
    if (suspects_[i] == kNoNode) {
      continue;
    }
    const auto path = paths.pathTo(suspects_[i]);
    if (path.nodes.empty()) {
      out[i].status = HolderStatus::Garbage;
    } else if (path.tier == kMuted) {
      out[i].status = HolderStatus::Own;
    } else {
      out[i].status = path.tier == kNative ? HolderStatus::Native : HolderStatus::Rooted;
      owners_[i].push_back(ownerFrom(path));
    }
  }
  for (NodeId node = 0; node < walk_.nodeCount(); node++) {
    if (!paths.reached(node)) {
      unreached_.push_back(node);
    }
  }
  chooseHolders(0);
}

void OwnerSearch::findOtherOwners() {
  for (std::size_t round = 1; round < static_cast<std::size_t>(std::max(query_.most_owners, 1)); round++) {
    const std::vector<NodeId> closed = holderNodes();
    if (closed.empty() || closed.size() > kMostHolders) {
      return;
    }
    const ShortestPaths paths = search(closed);
    bool found = false;
    for (std::size_t i = 0; i < suspects_.size(); i++) {
      if (owners_[i].size() != round || owners_[i].back().native) {
        continue;
      }
      const auto path = paths.pathTo(suspects_[i]);
      if (path.nodes.empty()) {
        continue;
      }
      owners_[i].push_back(ownerFrom(path));
      found = true;
    }
    if (!found) {
      return;
    }
    chooseHolders(round);
  }
}

std::vector<NodeId> OwnerSearch::holdersOf(std::size_t suspect) const {
  std::vector<NodeId> nodes;
  for (const Owner& owner : owners_[suspect]) {
    if (!owner.native && !owner.links.empty()) {
      nodes.push_back(owner.links[owner.holder].entered);
    }
  }
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

// findOtherOwners() closes the holders of all suspects at once, and so misses one suspect's holder that keeps another
// suspect too. Found here: who is reached from a holder that is not its own.
void OwnerSearch::findSharedOwners() {
  const std::vector<NodeId> holders = holderNodes();
  if (query_.most_owners < 2 || holders.size() < 2 || holders.size() > kMostShared) {
    return;
  }
  std::map<std::vector<NodeId>, std::vector<std::size_t>> missing;
  for (NodeId holder : holders) {
    const auto reached = reachableWithout(walk_.graph(), {{holder}}, {});
    for (std::size_t i = 0; i < suspects_.size(); i++) {
      const std::vector<NodeId> own = holdersOf(i);
      const bool known = own.empty() || std::binary_search(own.begin(), own.end(), holder);
      const bool enough = owners_[i].size() >= static_cast<std::size_t>(query_.most_owners);
      if (!known && !enough && reached[suspects_[i]]) {
        missing[own].push_back(i);
      }
    }
  }
  for (const auto& [own, suspects] : missing) {
    const ShortestPaths paths = search(own);
    for (std::size_t i : suspects) {
      const auto path = paths.pathTo(suspects_[i]);
      if (path.nodes.empty() || path.tier == kNative || holdersOf(i) != own) {
        continue;
      }
      Owner owner = ownerFrom(path);
      owner.holder = lastNameBeforeGraph(owner.links);
      for (std::size_t k = 0; k < owner.links.size(); k++) {
        if (std::binary_search(holders.begin(), holders.end(), owner.links[k].entered)) {
          owner.holder = k;
        }
      }
      owners_[i].push_back(std::move(owner));
    }
  }
}

// Which links stand for a container whose item the path goes through. Past the point where the path enters the autograd
// graph a container belongs to one step's graph (something kept on a ctx, say) unless a whole group goes through it.
std::vector<std::size_t> OwnerSearch::containersOn(const Owner& owner, bool into_graph) const {
  std::vector<std::size_t> found;
  for (std::size_t k = 0; k + 1 < owner.links.size(); k++) {
    if (entersGraph(owner.links[k].edge) && !into_graph) {
      break;
    }
    if (!isItem(owner.links[k + 1].edge)) {
      continue;
    }
    if (describeContainer(walk_.objectAt(owner.links[k].node), nullptr)) {
      found.push_back(k);
    }
  }
  return found;
}

int OwnerSearch::groupOf(std::size_t suspect) const {
  return suspect < query_.groups.size() ? query_.groups[suspect] : -1 - static_cast<int>(suspect);
}

// The holder is what would have to let go: the container that most suspects of a group hang in, the innermost of such.
// Where the ways of as many go on together behind it (an item of it is the newest of records that refer to one another,
// or an object with an attribute for each step), it is the last thing that they share. Without anything to share it is
// what the last name before the autograd graph stands for.
void OwnerSearch::chooseHolders(std::size_t round) {
  std::map<std::pair<int, NodeId>, int> uses;
  std::map<std::pair<int, NodeId>, int> passes;
  std::map<int, int> group_sizes;
  for (std::size_t i = 0; i < owners_.size(); i++) {
    if (owners_[i].size() <= round) {
      continue;
    }
    group_sizes[groupOf(i)]++;
    const Owner& owner = owners_[i][round];
    for (std::size_t k : containersOn(owner, true)) {
      uses[{groupOf(i), owner.links[k].node}]++;
    }
    for (std::size_t k = 0; !owner.links.empty() && k <= lastNameBeforeGraph(owner.links); k++) {
      passes[{groupOf(i), owner.links[k].entered}]++;
    }
  }
  for (std::size_t i = 0; i < owners_.size(); i++) {
    if (owners_[i].size() <= round) {
      continue;
    }
    Owner& owner = owners_[i][round];
    owner.holder = lastNameBeforeGraph(owner.links);
    int most = 0;
    for (std::size_t k : containersOn(owner, group_sizes[groupOf(i)] > 1)) {
      const int shared = uses[{groupOf(i), owner.links[k].node}];
      if (shared < most) {
        continue;
      }
      most = shared;
      owner.holder = k;
    }
    int passing = std::max(most, 2);
    const std::size_t end = owner.links.empty() ? 0 : lastNameBeforeGraph(owner.links) + 1;
    for (std::size_t k = most > 1 ? owner.holder + 1 : 0; k < end; k++) {
      const int shared = passes[{groupOf(i), owner.links[k].entered}];
      const bool tensor = most > 0 && walk_.kindOf(owner.links[k].node) >= kFirstForeign;
      if (shared >= passing && !tensor) {
        passing = shared;
        owner.holder = k;
      }
    }
  }
}

std::vector<NodeId> OwnerSearch::holderNodes() const {
  std::set<NodeId> nodes;
  for (const auto& owners : owners_) {
    for (const Owner& owner : owners) {
      if (!owner.native && !owner.links.empty()) {
        nodes.insert(owner.links[owner.holder].entered);
      }
    }
  }
  return {nodes.begin(), nodes.end()};
}

std::uint64_t OwnerSearch::garbageBytesFrom(NodeId start) const {
  const auto reached = reachableWithout(walk_.graph(), {{start}}, {});
  std::uint64_t bytes = 0;
  for (const auto& [node, weight] : weights_) {
    if (reached[node] && std::binary_search(unreached_.begin(), unreached_.end(), node)) {
      bytes += weight;
    }
  }
  return bytes;
}

std::vector<NodeId> OwnerSearch::pathTo(std::size_t suspect) const {
  return owners_[suspect].empty() ? std::vector<NodeId>() : owners_[suspect].front().nodes;
}

OwnerChain OwnerSearch::describe(const Owner& owner) const {
  OwnerChain out;
  out.root = chain_.describeRoot(owner.root, owner.links);
  out.holder = owner.holder;
  for (const auto& link : owner.links) {
    out.links.push_back(link.text);
  }
  if (!owner.links.empty()) {
    PyObject* before = owner.holder > 0 ? walk_.objectAt(owner.links[owner.holder - 1].node) : nullptr;
    PyObject* holder = walk_.objectAt(owner.links[owner.holder].node);
    out.container = describeContainer(holder, before);
    out.owner_resets = hasMethods(before, {"update", "reset"});
    if (!out.container && owner.holder + 1 < owner.links.size() && isItem(owner.links[owner.holder + 1].edge)) {
      out.container = describeReplaced(holder);
    }
  }
  return out;
}

void OwnerSearch::weigh(std::vector<SuspectHolders>& out) const {
  std::vector<NodeId> roots;
  for (const RankedRoot& root : named_) {
    roots.push_back(root.node);
  }
  for (const RankedRoot& root : native_) {
    roots.push_back(root.node);
  }
  const auto nodeOf = [](const Owner& owner) {
    return owner.links.empty() ? owner.nodes.front() : owner.links[owner.holder].entered;
  };
  const auto allOf = [&](const std::vector<Owner>& owners) {
    std::set<NodeId> nodes;
    std::transform(owners.begin(), owners.end(), std::inserter(nodes, nodes.end()), nodeOf);
    return std::vector<NodeId>(nodes.begin(), nodes.end());
  };
  std::map<std::vector<NodeId>, std::uint64_t> kept{{{}, 0}};
  for (const std::vector<Owner>& owners : owners_) {
    for (const Owner& owner : owners) {
      kept[{nodeOf(owner)}] = 0;
    }
    kept[allOf(owners)] = 0;
  }
  std::vector<std::vector<NodeId>> closed;
  for (const auto& [nodes, bytes] : kept) {
    closed.push_back(nodes);
  }
  const std::vector<std::uint64_t> bytes = bytesWithout(walk_.graph(), roots, closed, weights_);
  for (std::size_t k = 0; k < closed.size(); k++) {
    kept[closed[k]] = bytes[k];
  }
  const std::uint64_t all = kept[{}];
  for (std::size_t i = 0; i < owners_.size(); i++) {
    for (std::size_t k = 0; k < owners_[i].size(); k++) {
      OwnerChain described = describe(owners_[i][k]);
      described.retained_bytes = all - kept[{nodeOf(owners_[i][k])}];
      if (k == 0) {
        out[i].chain = std::move(described);
      } else {
        out[i].other_owners.push_back(std::move(described));
      }
    }
    if (!owners_[i].empty()) {
      out[i].all_owners_bytes = all - kept[allOf(owners_[i])];
    }
  }
}

} // namespace leakguard
