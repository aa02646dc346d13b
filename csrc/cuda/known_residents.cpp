#include "cuda/known_residents.h"

#include <c10/core/Allocator.h>
#include <dlfcn.h>

#include <map>
#include <mutex>
#include <shared_mutex>
#include <tuple>
#include <utility>

#include "torch/torch_version.h"

namespace leakguard {
namespace {

// at::cuda::WorkspaceMapWithMutex, as ATen/cuda/CUDAContextLight.h declares it. That header needs those of cuBLAS,
// cuSPARSE and cuSOLVER, and linking its library would bring all of torch's kernels; a test compares the declarations.
#if LEAKGUARD_TORCH_HAS_SIZED_WORKSPACES
using Workspace = std::pair<c10::DataPtr, size_t>;
const c10::DataPtr& blockOf(const Workspace& workspace) {
  return workspace.first;
}
#else
using Workspace = c10::DataPtr;
const c10::DataPtr& blockOf(const Workspace& workspace) {
  return workspace;
}
#endif
struct WorkspaceMapWithMutex {
  std::map<std::tuple<void*, void*>, Workspace> map;
  std::shared_mutex mutex;
};

void append(std::vector<ResidentBlock>& blocks, void* library, const char* table, Resident resident) {
  auto get = reinterpret_cast<WorkspaceMapWithMutex& (*)()>(dlsym(library, table));
  if (get == nullptr) {
    return;
  }
  WorkspaceMapWithMutex& workspaces = get();
  const std::shared_lock guard(workspaces.mutex);
  for (const auto& [handleAndStream, workspace] : workspaces.map) {
    blocks.push_back({reinterpret_cast<uintptr_t>(blockOf(workspace).get()), resident});
  }
}

} // namespace

const char* nameOf(Resident resident) noexcept {
  return resident == Resident::CublasWorkspace ? "cuBLAS workspace" : "cuBLASLt workspace";
}

std::vector<ResidentBlock> knownResidents() {
  std::vector<ResidentBlock> blocks;
  void* library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) {
    return blocks;
  }
  append(blocks, library, "_ZN2at4cuda33cublas_handle_stream_to_workspaceEv", Resident::CublasWorkspace);
  append(blocks, library, "_ZN2at4cuda35cublaslt_handle_stream_to_workspaceEv", Resident::CublasLtWorkspace);
  dlclose(library);
  return blocks;
}

} // namespace leakguard
