#pragma once

#include <cstdint>

#include "core/block.h"
#include "core/visibility.h"

namespace leakguard {

// Why a block is being born, as far as the allocating thread knows.
struct Context {
  uint32_t line = 0; // innermost line of the user's own code (LineTable), 0 = unknown
  uint32_t via = 0; // innermost line outside torch and the standard library, when it is not `line`
  uint32_t forwardLine = 0; // born in backward: the line that made the autograd node
  uint32_t module = 0; // path of the innermost running module (moduleNames)
  uint32_t node = 0; // name of the running autograd node, else of the operator if those are named (nodeNames)
  uint16_t thread = 0; // number of the thread, from 1
  Phase phase = Phase::Other;
  uint8_t flags = 0; // block_flag
};

// The two sockets: the running line (an interpreter) and the running autograd node (torch). A program without one
// leaves it empty. What is plugged in is called on the allocating thread, without the GIL, before any allocator lock is
// taken; it takes no lock but a leaf, allocates from no tracked allocator, and touches no reference count of the
// interpreter.
//
// readLine fills line, via, module, phase (Forward or Optimizer) and kUserLineInBackward; `phase` is Backward already
// when a node runs. readNode sets phase, node and forwardLine and returns whether this thread runs an autograd node.
// rememberForward keeps `line`, and the context's module, as those of the nodes this thread has made since it was last
// called. The line is the running one; in backward, where nodes are made for a graph of gradients, it is the forward
// line of the running node, unless the user's own code runs there (a checkpoint is recomputed).
LEAKGUARD_API void plugLineSocket(void (*readLine)(Context&) noexcept) noexcept;
LEAKGUARD_API void plugNodeSocket(
    bool (*readNode)(Context&) noexcept,
    void (*rememberForward)(const Context&, uint32_t line) noexcept) noexcept;

// The context of the allocation that this thread is about to make.
LEAKGUARD_API Context captureContext() noexcept;

// Hand-over from an allocator wrapper, which captures before the allocator's lock, to a tracker that runs under it.
struct PendingContext {
  Context context;
  bool set = false;
  bool replay = false; // a checkpoint is being restored on this thread
};
LEAKGUARD_API PendingContext* pendingContext() noexcept; // this thread's; nullptr when out of memory

// Time spent in the allocator's path, from one event in 256 that is timed: put one on the stack around the work.
class LEAKGUARD_API SampledCost {
 public:
  SampledCost() noexcept {
    if (++events_ % kTimedOneIn == 0) {
      begin();
    }
  }
  ~SampledCost() {
    if (began_ != 0) {
      end();
    }
  }
  SampledCost(const SampledCost&) = delete;
  SampledCost& operator=(const SampledCost&) = delete;

  static double seconds() noexcept; // estimated total of all threads

 private:
  static constexpr uint32_t kTimedOneIn = 256;
  LEAKGUARD_SELDOM void begin() noexcept;
  LEAKGUARD_SELDOM void end() const noexcept;

  static inline thread_local uint32_t events_ __attribute__((tls_model("initial-exec"))) = 0;
  int64_t began_ = 0; // ns; 0 = this event is not timed
};

} // namespace leakguard
