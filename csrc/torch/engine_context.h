#pragma once

#include "core/capture.h"
#include "core/visibility.h"

namespace leakguard {

// The autograd side of a context, read from the engine's own thread-local state; no RecordFunction, which would cost a
// fifth of a launch-bound step.
//
// In backward the engine's current node names the node, and its (thread, sequence number) finds the line that made it.
// In forward a node is made before its operator allocates, so the nodes made since the last allocation of this thread
// belong to the line that runs now. A view makes a node and no block: its node gets the line of the next allocation.
// The same holds for nodes made in backward: a recomputed checkpoint, a graph of gradients.
//
// Both go into plugNodeSocket.
LEAKGUARD_API bool readCurrentNode(Context& context) noexcept;
LEAKGUARD_API void rememberForwardLine(const Context& context, uint32_t line) noexcept;

// Line and module that made a node, of the latest 16 384 nodes of each thread; zeros when it is not known (any more).
struct ForwardPlace {
  uint32_t line = 0;
  uint32_t module = 0;
};
LEAKGUARD_API ForwardPlace forwardLineOf(uint64_t thread, uint64_t sequence) noexcept;

// Watching begins: nodes that threads have made so far, unwatched, have no line. Not to be called while another thread
// calls it.
LEAKGUARD_API void beginForwardLines() noexcept;

} // namespace leakguard
