#pragma once

#include <cstdint>
#include <vector>

namespace leakguard {

// Memory that torch keeps for its libraries as long as the process lives: one workspace for each library handle (one
// for each thread and device) and stream. It grows with neither steps nor data, so it is named and never called growth.
enum class Resident : uint8_t { CublasWorkspace, CublasLtWorkspace };
const char* nameOf(Resident resident) noexcept; // "cuBLAS workspace"

struct ResidentBlock {
  uint64_t address = 0;
  Resident resident = Resident::CublasWorkspace;
};

// Asks torch's own tables, so no block is taken for a workspace by its size. Empty where libtorch_cuda is not loaded or
// does not have them. May be called from any thread, not from inside an allocation.
std::vector<ResidentBlock> knownResidents();

} // namespace leakguard
