// Shared by the parts of the fake libcudart.so.13.
#pragma once

#include "model.h"

namespace fakecuda {

extern thread_local cudaError_t last_error;

inline cudaError_t report(cudaError_t error) {
  if (error != cudaSuccess)
    last_error = error;
  return error;
}

inline bool isDevice(int device) {
  return device >= 0 && device < settings().devices;
}

#define REFUSE_WHILE_CAPTURING() \
  if (!unsafeCallAllowed())      \
  return report(cudaErrorStreamCaptureUnsupported)

} // namespace fakecuda
