// libcudart: what nvcc-generated code calls to register and launch kernels.
// A launch validates its configuration and moves its stream's clock.
#include <cstring>

#include "runtime.h"

using namespace fakecuda;

namespace {

struct CallConfiguration {
  dim3 grid, block;
  size_t shared_memory;
  cudaStream_t stream;
};
thread_local CallConfiguration pending_call;

cudaError_t launch(dim3 grid, dim3 block, cudaStream_t handle) {
  Stream& stream = resolveStream(handle);
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (!grid.x || !grid.y || !grid.z || grid.y > 65535 || grid.z > 65535 || threads == 0 || threads > 1024)
    return report(cudaErrorInvalidConfiguration);
  submitKernel(stream);
  return cudaSuccess;
}

} // namespace

extern "C" {

// ------------------------------------------------------------ registration

void** __cudaRegisterFatBinary(void*) {
  static void* handle; // never looked into
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) {
  return 1;
}

void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*, dim3*, int*) {}

void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

// ---------------------------------------------------------------- launches

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_memory, cudaStream_t stream) {
  pending_call = {grid, block, shared_memory, stream};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_memory, void* stream) {
  *grid = pending_call.grid;
  *block = pending_call.block;
  *shared_memory = pending_call.shared_memory;
  *static_cast<cudaStream_t*>(stream) = pending_call.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3 grid, dim3 block, void**, size_t, cudaStream_t stream) {
  return launch(grid, block, stream);
}

cudaError_t cudaLaunchKernel(const void*, dim3 grid, dim3 block, void**, size_t, cudaStream_t stream) {
  return launch(grid, block, stream);
}

cudaError_t cudaLaunchCooperativeKernel(const void*, dim3 grid, dim3 block, void**, size_t, cudaStream_t stream) {
  return launch(grid, block, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void*, void**) {
  return launch(config->gridDim, config->blockDim, config->stream);
}

// --------------------------------------------------------- kernel queries

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  std::memset(attributes, 0, sizeof *attributes);
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  attributes->binaryVersion = attributes->ptxVersion = settings().capability_major * 10 + settings().capability_minor;
  attributes->maxDynamicSharedSizeBytes = 49152;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, size_t, unsigned) {
  *blocks = 2;
  return cudaSuccess;
}

} // extern "C"
