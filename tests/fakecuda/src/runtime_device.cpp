// libcudart: devices, errors, driver lookup.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "runtime.h"

using namespace fakecuda;

namespace fakecuda {
thread_local cudaError_t last_error = cudaSuccess;
}

namespace {

constexpr int kVersion = CUDART_VERSION;

struct ErrorText {
  cudaError_t code;
  const char* name;
  const char* text;
};

#define ERROR(name, text) \
  { name, #name, text }
const ErrorText error_texts[] = {
    ERROR(cudaSuccess, "no error"),
    ERROR(cudaErrorInvalidValue, "invalid argument"),
    ERROR(cudaErrorMemoryAllocation, "out of memory"),
    ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    ERROR(cudaErrorInvalidSymbol, "invalid device symbol"),
    ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    ERROR(cudaErrorSymbolNotFound, "named symbol not found"),
    ERROR(cudaErrorNotReady, "device not ready"),
    ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    ERROR(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped"),
    ERROR(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"),
    ERROR(cudaErrorNotSupported, "operation not supported"),
    ERROR(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    ERROR(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    ERROR(cudaErrorStreamCaptureUnmatched, "capture was not initiated in this stream"),
    ERROR(
        cudaErrorStreamCaptureWrongThread,
        "attempt to terminate a thread-local capture sequence from another "
        "thread"),
    ERROR(
        cudaErrorCapturedEvent,
        "operation not permitted on an event last recorded in a capturing "
        "stream"),
};
#undef ERROR

const ErrorText* findError(cudaError_t code) {
  for (const auto& entry : error_texts)
    if (entry.code == code)
      return &entry;
  return nullptr;
}

// Sizes that differ between architectures and steer launch configurations.
struct SharedMemory {
  size_t per_multiprocessor, per_block_optin;
};
SharedMemory sharedMemory() {
  const auto& s = settings();
  if (s.capability_major >= 9 && s.capability_major < 12)
    return {233472, 232448};
  if (s.capability_major == 8 && s.capability_minor == 0)
    return {167936, 166912};
  return {102400, 101376};
}

int attribute(cudaDeviceAttr which) {
  switch (which) {
    case cudaDevAttrMaxThreadsPerBlock:
      return 1024;
    case cudaDevAttrMaxBlockDimX:
      return 1024;
    case cudaDevAttrMaxBlockDimY:
      return 1024;
    case cudaDevAttrMaxBlockDimZ:
      return 64;
    case cudaDevAttrMaxGridDimX:
      return 2147483647;
    case cudaDevAttrMaxGridDimY:
      return 65535;
    case cudaDevAttrMaxGridDimZ:
      return 65535;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return 49152;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return int(sharedMemory().per_block_optin);
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return int(sharedMemory().per_multiprocessor);
    case cudaDevAttrReservedSharedMemoryPerBlock:
      return 1024;
    case cudaDevAttrTotalConstantMemory:
      return 65536;
    case cudaDevAttrWarpSize:
      return 32;
    case cudaDevAttrMaxRegistersPerBlock:
      return 65536;
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      return 65536;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return 2048;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      return 32;
    case cudaDevAttrMultiProcessorCount:
      return settings().multiprocessors;
    case cudaDevAttrComputeCapabilityMajor:
      return settings().capability_major;
    case cudaDevAttrComputeCapabilityMinor:
      return settings().capability_minor;
    case cudaDevAttrClockRate:
      return 1410000;
    case cudaDevAttrMemoryClockRate:
      return 1215000;
    case cudaDevAttrL2CacheSize:
      return 40 << 20;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrMemoryPoolsSupported:
      return 1;
    default:
      return 0;
  }
}

} // namespace

extern "C" {

// ------------------------------------------------------------------ errors

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() {
  return last_error;
}

const char* cudaGetErrorString(cudaError_t code) {
  const ErrorText* entry = findError(code);
  return entry ? entry->text : "unrecognized error code";
}

const char* cudaGetErrorName(cudaError_t code) {
  const ErrorText* entry = findError(code);
  return entry ? entry->name : "cudaErrorUnknown";
}

// ----------------------------------------------------------------- devices

cudaError_t cudaGetDeviceCount(int* devices) {
  *devices = settings().devices;
  return *devices ? cudaSuccess : report(cudaErrorNoDevice);
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (!isDevice(device))
    return report(cudaErrorInvalidDevice);
  current_device = device;
  activateDevice(device);
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  if (!isDevice(device))
    return report(cudaErrorInvalidDevice);
  const auto& s = settings();
  std::memset(p, 0, sizeof *p);
  std::snprintf(p->name, sizeof p->name, "Fake CUDA Device sm_%d%d", s.capability_major, s.capability_minor);
  std::memcpy(p->uuid.bytes, "fakecuda device", 15);
  p->uuid.bytes[15] = char(device);
  p->totalGlobalMem = s.memory_bytes;
  p->sharedMemPerBlock = 49152;
  p->sharedMemPerBlockOptin = sharedMemory().per_block_optin;
  p->sharedMemPerMultiprocessor = sharedMemory().per_multiprocessor;
  p->reservedSharedMemPerBlock = 1024;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->warpSize = 32;
  p->memPitch = 2147483647;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 2147483647;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->maxThreadsPerMultiProcessor = 2048;
  p->maxBlocksPerMultiProcessor = 32;
  p->totalConstMem = 65536;
  p->major = s.capability_major;
  p->minor = s.capability_minor;
  p->textureAlignment = p->surfaceAlignment = 512;
  p->texturePitchAlignment = 32;
  p->multiProcessorCount = s.multiprocessors;
  p->l2CacheSize = 40 << 20;
  p->memoryBusWidth = 5120;
  p->canMapHostMemory = p->concurrentKernels = p->unifiedAddressing = 1;
  p->streamPrioritiesSupported = p->globalL1CacheSupported = 1;
  p->localL1CacheSupported = p->cooperativeLaunch = 1;
  p->hostRegisterSupported = p->memoryPoolsSupported = 1;
  p->asyncEngineCount = 3;
  p->pciBusID = device + 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  if (!isDevice(device))
    return report(cudaErrorInvalidDevice);
  *value = attribute(which);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least)
    *least = 0;
  if (greatest)
    *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* possible, int device, int peer) {
  if (!isDevice(device) || !isDevice(peer))
    return report(cudaErrorInvalidDevice);
  *possible = device != peer;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  return isDevice(peer) ? cudaSuccess : report(cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceSynchronize() {
  count(Count::DeviceSync);
  REFUSE_WHILE_CAPTURING();
  activateDevice(current_device);
  completeDevice(current_device);
  std::this_thread::yield(); // waiting for a device lets other threads run
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(
    const char* symbol,
    void** function,
    unsigned,
    unsigned long long,
    cudaDriverEntryPointQueryResult* status) {
  *function = fakecuda_find_driver_function(symbol);
  if (status)
    *status = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

} // extern "C"
