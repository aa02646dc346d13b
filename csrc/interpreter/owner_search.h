#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/object_graph.h"
#include "interpreter/heap_walk.h"
#include "interpreter/holder_chain.h"
#include "interpreter/holder_search.h"

namespace leakguard {

// Finds who keeps the suspects of one walk alive: the nearest root, the holder on the way from it, the other holders
// that would keep a suspect if that one let go, and what each keeps. Needs the walk's pins.
class OwnerSearch {
 public:
  OwnerSearch(const HeapWalk& walk, EdgeAdapter* adapter, const HolderChain& chain, const HolderQuery& query);

  // Fills in status, owners and bytes of every suspect that is not garbage.
  void run(std::vector<SuspectHolders>& out);

  const std::vector<NodeId>& suspects() const noexcept {
    return suspects_;
  }
  // Nodes no root reaches, in ascending order. After run().
  const std::vector<NodeId>& unreached() const noexcept {
    return unreached_;
  }
  // Storage bytes of those of the unreached nodes that start reaches.
  std::uint64_t garbageBytesFrom(NodeId start) const;
  // Path to the suspect that run() found first; empty when there is none.
  std::vector<NodeId> pathTo(std::size_t suspect) const;

 private:
  struct Owner {
    HeapWalk::Root root;
    std::vector<HolderChain::Link> links;
    std::vector<NodeId> nodes;
    std::size_t holder = 0;
    bool native = false;
  };

  ShortestPaths search(const std::vector<NodeId>& closed) const;
  Owner ownerFrom(const ShortestPaths::Path& path) const;
  void findFirstOwners(std::vector<SuspectHolders>& out);
  void findOtherOwners();
  void findSharedOwners();
  std::vector<NodeId> holdersOf(std::size_t suspect) const;
  void chooseHolders(std::size_t round);
  std::vector<std::size_t> containersOn(const Owner& owner, bool into_graph) const;
  int groupOf(std::size_t suspect) const;
  std::vector<NodeId> holderNodes() const;
  OwnerChain describe(const Owner& owner) const;
  void weigh(std::vector<SuspectHolders>& out) const;

  const HeapWalk& walk_;
  EdgeAdapter* adapter_;
  const HolderChain& chain_;
  const HolderQuery& query_;
  std::vector<RankedRoot> named_, native_, muted_;
  std::vector<const HeapWalk::Root*> named_roots_;
  std::vector<NodeId> suspects_;
  std::vector<NodeId> unreached_;
  std::vector<std::vector<Owner>> owners_; // of each suspect, nearest first
  std::vector<WeightedNode> weights_; // storages
};

} // namespace leakguard
