// libcublasLt.so.13: opaque descriptors, one always-applicable algorithm, and
// a multiplication that is a no-op kernel.
#include "blas.h"

using namespace fakecuda;

namespace {

struct Descriptor { // as large as the largest of them; nobody looks inside
  uint64_t data[32] = {};
};

struct Heuristic { // cublasLtMatmulHeuristicResult_t
  uint64_t algorithm[8] = {};
  size_t workspace_bytes = 0;
  BlasStatus state = kBlasSuccess;
  float waves = 0;
  int reserved[4] = {};
};

BlasStatus create(Descriptor** descriptor) {
  *descriptor = new Descriptor;
  return kBlasSuccess;
}

BlasStatus destroy(Descriptor* descriptor) {
  delete descriptor;
  return kBlasSuccess;
}

} // namespace

extern "C" {

FAKECUDA_API int fakecuda_blaslt_routine(const void*, const char* name) {
  return fakecuda_unimplemented(name), kBlasSuccess;
}

BlasStatus cublasLtMatmulDescCreate(Descriptor** d, int, int) {
  return create(d);
}
BlasStatus cublasLtMatmulDescDestroy(Descriptor* d) {
  return destroy(d);
}
BlasStatus cublasLtMatrixLayoutCreate(Descriptor** d, int, uint64_t, uint64_t, int64_t) {
  return create(d);
}
BlasStatus cublasLtMatrixLayoutDestroy(Descriptor* d) {
  return destroy(d);
}
BlasStatus cublasLtMatmulPreferenceCreate(Descriptor** d) {
  return create(d);
}
BlasStatus cublasLtMatmulPreferenceDestroy(Descriptor* d) {
  return destroy(d);
}

// Nothing reads the attributes, so nothing stores them.
BlasStatus cublasLtMatmulDescSetAttribute(Descriptor*, int, const void*, size_t) {
  return kBlasSuccess;
}
BlasStatus cublasLtMatrixLayoutSetAttribute(Descriptor*, int, const void*, size_t) {
  return kBlasSuccess;
}
BlasStatus cublasLtMatmulPreferenceSetAttribute(Descriptor*, int, const void*, size_t) {
  return kBlasSuccess;
}

BlasStatus cublasLtMatmulAlgoGetHeuristic(
    void*,
    Descriptor*,
    Descriptor*,
    Descriptor*,
    Descriptor*,
    Descriptor*,
    Descriptor*,
    int requested,
    Heuristic results[],
    int* returned) {
  *returned = requested > 0;
  if (*returned)
    results[0] = Heuristic{};
  return kBlasSuccess;
}

BlasStatus cublasLtMatmul(
    void*,
    Descriptor*,
    const void*,
    const void*,
    Descriptor*,
    const void*,
    Descriptor*,
    const void*,
    const void*,
    Descriptor*,
    void*,
    Descriptor*,
    const void*,
    void*,
    size_t,
    cudaStream_t stream) {
  return blasKernel(stream);
}

} // extern "C"
