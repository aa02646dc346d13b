#include <algorithm>
#include <random>
#include <vector>

#include "catch.h"
#include "core/address_table.h"
#include "core/garbage_cycles.h"
#include "core/object_graph.h"

using leakguard::AddressTable;
using leakguard::bytesWithout;
using leakguard::GarbageCycles;
using leakguard::kNoNode;
using leakguard::NodeId;
using leakguard::ObjectGraph;
using leakguard::RankedRoot;
using leakguard::reachableWithout;
using leakguard::ShortestPaths;
using leakguard::WeightedNode;

namespace {

using Nodes = std::vector<NodeId>;

ObjectGraph graphOf(const std::vector<Nodes>& rows) {
  ObjectGraph graph;
  for (const Nodes& row : rows) {
    graph.beginNode();
    for (NodeId to : row) {
      graph.addEdge(to);
    }
  }
  graph.finish();
  return graph;
}

Nodes allOf(const ObjectGraph& graph) {
  Nodes nodes(graph.nodeCount());
  for (NodeId i = 0; i < nodes.size(); i++) {
    nodes[i] = i;
  }
  return nodes;
}

std::vector<Nodes> randomRows(std::mt19937& random, NodeId count, int edges) {
  std::vector<Nodes> rows(count);
  for (int i = 0; i < edges; i++) {
    rows[random() % count].push_back(random() % count);
  }
  return rows;
}

} // namespace

TEST_CASE("addresses are numbered in the order they are seen", "[object_graph]") {
  AddressTable table;
  std::vector<char> memory(1 << 16);
  for (NodeId i = 0; i < 4096; i++) {
    REQUIRE(table.insert(&memory[i * 16], i) == i);
  }
  for (NodeId i = 0; i < 4096; i++) {
    REQUIRE(table.find(&memory[i * 16]) == i);
    REQUIRE(table.insert(&memory[i * 16], 99999) == i);
  }
  REQUIRE(table.find(&memory[8]) == kNoNode);
}

TEST_CASE("rows keep their edges, repeated ones too", "[object_graph]") {
  const ObjectGraph graph = graphOf({{1, 1, 2}, {}, {0}});
  REQUIRE(graph.nodeCount() == 3);
  REQUIRE(graph.edgeCount() == 4);
  REQUIRE(graph.successors(0).size() == 3);
  REQUIRE(graph.successors(1).empty());
  REQUIRE(graph.inDegrees() == std::vector<std::uint32_t>{1, 2, 1});
}

TEST_CASE("the shortest path wins, and rank decides between equals", "[object_graph]") {
  //  0 -> 1 -> 4      2 -> 4      3 -> 4
  const ObjectGraph graph = graphOf({{1}, {4}, {4}, {4}, {}});
  ShortestPaths paths(graph);
  const std::vector<RankedRoot> roots{{0, 0}, {2, 2}, {3, 1}};
  paths.spread(roots);
  const auto path = paths.pathTo(4);
  // 0 -> 1 -> 4 costs two steps, as does 3 -> 4 with its rank; the root offered first keeps a tie
  REQUIRE((path.nodes == Nodes{3, 4} || path.nodes == Nodes{0, 1, 4}));
  REQUIRE(roots[path.root].node == path.nodes.front());
  REQUIRE(paths.pathTo(2).nodes == Nodes{2});
}

TEST_CASE("a later tier reaches only what no earlier one did", "[object_graph]") {
  const ObjectGraph graph = graphOf({{1}, {2}, {}, {2, 4}, {}, {}});
  ShortestPaths paths(graph);
  paths.spread(std::vector<RankedRoot>{{0, 3}});
  paths.spread(std::vector<RankedRoot>{{3, 0}, {1, 0}});
  REQUIRE(paths.pathTo(2).tier == 0);
  REQUIRE(paths.pathTo(2).nodes == Nodes{0, 1, 2});
  REQUIRE(paths.pathTo(4).tier == 1);
  REQUIRE(paths.pathTo(4).root == 0);
  REQUIRE(paths.pathTo(4).nodes == Nodes{3, 4});
  REQUIRE_FALSE(paths.reached(5));
  REQUIRE(paths.pathTo(5).nodes.empty());
}

TEST_CASE("no path leads through a closed node", "[object_graph]") {
  const ObjectGraph graph = graphOf({{1, 3}, {2}, {}, {4}, {2}});
  ShortestPaths paths(graph);
  paths.close(1);
  paths.spread(std::vector<RankedRoot>{{0, 0}});
  REQUIRE(paths.pathTo(2).nodes == Nodes{0, 3, 4, 2});
  REQUIRE_FALSE(paths.reached(1));
}

TEST_CASE("path lengths agree with a plain breadth-first search", "[object_graph]") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; round++) {
    const NodeId count = 2 + random() % 40;
    const ObjectGraph graph = graphOf(randomRows(random, count, static_cast<int>(random() % 90)));
    ShortestPaths paths(graph);
    paths.spread(std::vector<RankedRoot>{{0, 0}});
    std::vector<std::size_t> steps(count, 0);
    steps[0] = 1;
    for (std::size_t pass = 1; pass <= count; pass++) {
      for (NodeId from = 0; from < count; from++) {
        if (steps[from] != pass) {
          continue;
        }
        for (NodeId to : graph.successors(from)) {
          if (steps[to] == 0) {
            steps[to] = pass + 1;
          }
        }
      }
    }
    for (NodeId node = 0; node < count; node++) {
      REQUIRE(paths.pathTo(node).nodes.size() == steps[node]);
    }
  }
}

TEST_CASE("what is freed when a holder lets go", "[object_graph]") {
  // 0 holds 1 and 2; both hold 3; only 1 holds 4
  const ObjectGraph graph = graphOf({{1, 2}, {3, 4}, {3}, {}, {}});
  const Nodes roots{0};
  REQUIRE(reachableWithout(graph, roots, {}) == std::vector<std::uint8_t>{1, 1, 1, 1, 1});
  REQUIRE(reachableWithout(graph, roots, Nodes{1}) == std::vector<std::uint8_t>{1, 0, 1, 1, 0});
  REQUIRE(reachableWithout(graph, roots, Nodes{1, 2}) == std::vector<std::uint8_t>{1, 0, 0, 0, 0});
  REQUIRE(reachableWithout(graph, roots, Nodes{0}) == std::vector<std::uint8_t>{0, 0, 0, 0, 0});
}

TEST_CASE("many holders at once are weighed as one by one", "[object_graph]") {
  std::mt19937 random(3);
  for (int round = 0; round < 300; round++) {
    const NodeId count = 2 + random() % 60;
    const ObjectGraph graph = graphOf(randomRows(random, count, static_cast<int>(random() % 120)));
    const auto some = [&](unsigned most) {
      Nodes nodes(random() % (most + 1));
      std::generate(nodes.begin(), nodes.end(), [&] { return random() % count; });
      return nodes;
    };
    const Nodes roots = some(5);
    std::vector<Nodes> closed(random() % 150); // the masks have 64 bits
    std::generate(closed.begin(), closed.end(), [&] { return some(3); });
    std::vector<WeightedNode> weights;
    for (NodeId node = 0; node < count; node += 1 + random() % 3) {
      weights.emplace_back(node, 1 + random() % 1000);
    }
    const std::vector<std::uint64_t> bytes = bytesWithout(graph, roots, closed, weights);
    REQUIRE(bytes.size() == closed.size());
    for (std::size_t k = 0; k < closed.size(); k++) {
      const auto reached = reachableWithout(graph, roots, closed[k]);
      std::uint64_t expected = 0;
      for (const auto& [node, weight] : weights) {
        expected += reached[node] ? weight : 0;
      }
      REQUIRE(bytes[k] == expected);
    }
  }
}

TEST_CASE("garbage is explained by the nearest cycle and the way from it", "[garbage_cycles]") {
  // 0 <-> 1, 1 -> 2 -> 3; 4 -> 4 -> 5
  const ObjectGraph graph = graphOf({{1}, {0, 2}, {3}, {}, {4, 5}, {}});
  const GarbageCycles cycles(graph, allOf(graph), {});
  const auto behind = cycles.trailTo(3);
  REQUIRE(behind.cycle == Nodes{1, 0, 1});
  REQUIRE(behind.way == Nodes{1, 2, 3});
  const auto on = cycles.trailTo(0);
  REQUIRE(on.cycle == Nodes{0, 1, 0});
  REQUIRE(on.way == Nodes{0});
  REQUIRE(cycles.trailTo(5).cycle == Nodes{4, 4});
  REQUIRE(cycles.trailTo(5).way == Nodes{4, 5});
}

TEST_CASE("an object and its wrapper are no cycle by themselves", "[garbage_cycles]") {
  // wrapper 0 <-> object 1; object 1 -> 2 -> wrapper 0 is one. 3 <-> 4 are twins as well, on no cycle; 4 -> 5
  const ObjectGraph graph = graphOf({{1}, {0, 2}, {0}, {4}, {3, 5}, {}});
  const std::vector<std::pair<NodeId, NodeId>> twins{{0, 1}, {3, 4}};
  const GarbageCycles cycles(graph, allOf(graph), twins);
  const auto trail = cycles.trailTo(2);
  REQUIRE(trail.way == Nodes{2});
  REQUIRE(trail.cycle == Nodes{2, 0, 1, 2});
  REQUIRE(cycles.trailTo(5).cycle.empty());
}

TEST_CASE("every trail follows the edges and ends at the target", "[garbage_cycles]") {
  std::mt19937 random(11);
  for (int round = 0; round < 300; round++) {
    const NodeId count = 2 + random() % 24;
    const ObjectGraph graph = graphOf(randomRows(random, count, static_cast<int>(random() % 60)));
    std::vector<std::pair<NodeId, NodeId>> twins;
    if (count > 4) {
      twins = {{0, 1}, {2, 3}};
    }
    const GarbageCycles cycles(graph, allOf(graph), twins);
    auto isTwin = [&](NodeId a, NodeId b) {
      return std::any_of(twins.begin(), twins.end(), [&](auto t) {
        return (t.first == a && t.second == b) || (t.first == b && t.second == a);
      });
    };
    auto follows = [&](const Nodes& nodes) {
      for (std::size_t i = 1; i < nodes.size(); i++) {
        const auto next = graph.successors(nodes[i - 1]);
        const bool edge = std::find(next.begin(), next.end(), nodes[i]) != next.end();
        if (!edge && !isTwin(nodes[i - 1], nodes[i])) {
          return false;
        }
      }
      return true;
    };
    for (NodeId target = 0; target < count; target++) {
      const auto trail = cycles.trailTo(target);
      if (trail.cycle.empty()) {
        continue;
      }
      REQUIRE(trail.cycle.size() >= 2);
      REQUIRE(trail.cycle.front() == trail.cycle.back());
      REQUIRE(trail.way.front() == trail.cycle.front());
      REQUIRE(trail.way.back() == target);
      REQUIRE(follows(trail.cycle));
      REQUIRE(follows(trail.way));
    }
  }
}

TEST_CASE("a chain of a million nodes needs no deep stack", "[garbage_cycles]") {
  constexpr NodeId kLength = 1'000'000;
  ObjectGraph graph;
  for (NodeId i = 0; i < kLength; i++) {
    graph.beginNode();
    graph.addEdge(i + 1 < kLength ? i + 1 : kLength - 2);
  }
  graph.finish();
  ShortestPaths paths(graph);
  paths.spread(std::vector<RankedRoot>{{0, 0}});
  REQUIRE(paths.pathTo(kLength - 1).nodes.size() == kLength);
  const GarbageCycles cycles(graph, allOf(graph), {});
  REQUIRE(cycles.trailTo(kLength - 1).cycle == Nodes{kLength - 1, kLength - 2, kLength - 1});
}
