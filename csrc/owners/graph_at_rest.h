#pragma once

namespace leakguard {

// True when no other thread is in a backward pass, if need be after up to 50 ms of waiting with the GIL released: such
// a thread drops saved tensors without the GIL. False: leave the graph out of the walk. Needs the GIL.
bool waitForGraphAtRest();

} // namespace leakguard
