// libcublas.so.13: handles remember their settings; every routine is one no-op
// kernel on the handle's stream (see the generated stubs).
#include <unordered_set>

#include "blas.h"

using namespace fakecuda;

namespace {

struct Handle {
  cudaStream_t stream = nullptr;
  int math_mode = 0;
};

std::unordered_set<const void*>& handles() {
  static auto* set = new std::unordered_set<const void*>;
  return *set;
}

bool isHandle(const void* candidate) {
  Lock lock(modelMutex());
  return handles().count(candidate) != 0;
}

} // namespace

extern "C" {

// Called by every generated stub.  `first` is the routine's first argument: a
// handle for whatever computes, anything at all for the rest.
FAKECUDA_API int fakecuda_blas_routine(const void* first, const char* name) {
  if (!isHandle(first))
    return fakecuda_unimplemented(name), kBlasSuccess;
  return blasKernel(static_cast<const Handle*>(first)->stream);
}

BlasStatus cublasCreate_v2(Handle** handle) {
  activateDevice(current_device);
  *handle = new Handle;
  Lock lock(modelMutex());
  handles().insert(*handle);
  return kBlasSuccess;
}

BlasStatus cublasSetWorkspace_v2(Handle*, void*, size_t) {
  return kBlasSuccess;
}

BlasStatus cublasSetStream_v2(Handle* handle, cudaStream_t stream) {
  handle->stream = stream;
  return kBlasSuccess;
}

BlasStatus cublasSetMathMode(Handle* handle, int mode) {
  handle->math_mode = mode;
  return kBlasSuccess;
}

BlasStatus cublasGetMathMode(Handle* handle, int* mode) {
  *mode = handle->math_mode;
  return kBlasSuccess;
}

const char* cublasGetStatusString(BlasStatus status) {
  return status == kBlasSuccess ? "success" : "fake failure";
}

} // extern "C"
