// Shared by the fake cuBLAS and cuBLASLt.  Their public headers need parts of
// the toolkit that pip does not bring (nv/target), so the few names used here
// are spelled out; C linkage does not look at parameter types.
#pragma once

#include "model.h"

namespace fakecuda {

using BlasStatus = int;
constexpr BlasStatus kBlasSuccess = 0;

// What any multiplication amounts to.
inline BlasStatus blasKernel(cudaStream_t handle) {
  submitKernel(resolveStream(handle));
  return kBlasSuccess;
}

} // namespace fakecuda
