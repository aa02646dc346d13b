// The context of an allocation: what the sockets fill in, in which order, on which thread.
#include <thread>
#include <vector>

#include "catch.h"
#include "core/capture.h"

using namespace leakguard;

namespace {

// What is plugged in, and a record of how it was called.
thread_local bool nodeRuns = false;
thread_local std::vector<uint32_t> remembered; // lines given to rememberForward
thread_local Phase phaseSeenByLine = Phase::Other;

thread_local uint8_t flagsOfLine = 0;

bool scriptedNode(Context& context) noexcept {
  if (nodeRuns) {
    context.phase = Phase::Backward;
    context.node = 5;
    context.forwardLine = 70;
  }
  return nodeRuns;
}

void scriptedLine(Context& context) noexcept {
  phaseSeenByLine = context.phase;
  context.line = 80;
  context.via = 81;
  context.module = 3;
  context.flags = flagsOfLine;
  if (context.phase != Phase::Backward) {
    context.phase = Phase::Forward;
  }
}

void remember(const Context& /*context*/, uint32_t line) noexcept {
  remembered.push_back(line);
}

class Plugged {
 public:
  Plugged() {
    remembered.clear();
    nodeRuns = false;
    plugLineSocket(&scriptedLine);
    plugNodeSocket(&scriptedNode, &remember);
  }
  ~Plugged() {
    plugLineSocket(nullptr);
    plugNodeSocket(nullptr, nullptr);
  }
  Plugged(const Plugged&) = delete;
  Plugged& operator=(const Plugged&) = delete;
};

} // namespace

TEST_CASE("a program without sockets has contexts that know their thread only") {
  const Context context = captureContext();
  CHECK(context.line == 0);
  CHECK(context.phase == Phase::Other);
  CHECK(context.thread != 0);
  CHECK(captureContext().thread == context.thread);
}

TEST_CASE("every thread has a number of its own") {
  const uint16_t mine = captureContext().thread;
  uint16_t other = 0;
  std::thread([&] { other = captureContext().thread; }).join();
  CHECK(other != 0);
  CHECK(other != mine);
}

TEST_CASE("in forward the line is captured, and remembered for the nodes that were made for it") {
  const Plugged plugged;
  const Context context = captureContext();
  CHECK(context.line == 80);
  CHECK(context.via == 81);
  CHECK(context.module == 3);
  CHECK(context.phase == Phase::Forward);
  CHECK(context.node == 0);
  CHECK(phaseSeenByLine == Phase::Other);
  CHECK(remembered == std::vector<uint32_t>{80});
}

TEST_CASE("in backward the node comes first, so that the line knows it runs in backward") {
  const Plugged plugged;
  nodeRuns = true;
  const Context context = captureContext();
  nodeRuns = false;
  CHECK(phaseSeenByLine == Phase::Backward);
  CHECK(context.phase == Phase::Backward);
  CHECK(context.node == 5);
  CHECK(context.forwardLine == 70);
}

TEST_CASE("nodes made in backward get the forward line of the running node, or the user's own line that runs there") {
  const Plugged plugged;
  nodeRuns = true;
  captureContext();
  flagsOfLine = block_flag::kUserLineInBackward;
  captureContext();
  flagsOfLine = 0;
  nodeRuns = false;
  CHECK(remembered == std::vector<uint32_t>{70, 80});
}

TEST_CASE("sockets that are taken out are called no more") {
  {
    const Plugged plugged;
    captureContext();
  }
  remembered.clear();
  CHECK(captureContext().line == 0);
  CHECK(remembered.empty());
}

TEST_CASE("the pending context is this thread's, and gone when the thread is") {
  PendingContext* mine = pendingContext();
  REQUIRE(mine != nullptr);
  mine->set = true;
  mine->context.line = 9;
  CHECK(pendingContext() == mine);
  bool setForOther = true;
  std::thread([&] {
    setForOther = pendingContext()->set;
    pendingContext()->set = true;
    pendingContext()->replay = true;
  }).join();
  CHECK_FALSE(setForOther);
  // Whoever gets the state of the thread that ended finds nothing pending.
  std::thread([&] { setForOther = pendingContext()->set || pendingContext()->replay; }).join();
  CHECK_FALSE(setForOther);
  CHECK(mine->set);
  *mine = PendingContext{};
}

TEST_CASE("time in the allocator's path is estimated from the events that are timed") {
  const double before = SampledCost::seconds();
  CHECK(before >= 0);
  for (int event = 0; event < 1024; ++event) {
    const SampledCost cost;
  }
  const double after = SampledCost::seconds();
  CHECK(after >= before);
  CHECK(after > 0); // four of the events were timed
}
