// libnvidia-ml.so.1: as much as PyTorch asks of it.  Expandable segments need
// it to be there (PyTorch 2.14 calls it without a check), and out-of-memory
// texts take the memory use of processes from it.  No public header: the
// declarations follow NVML's documentation.
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "model.h"

using namespace fakecuda;

namespace {

enum Result { Success = 0, InvalidArgument = 2, NotSupported = 3, InsufficientSize = 7 };

struct ProcessInfo { // nvmlProcessInfo_v1_t
  unsigned pid;
  unsigned long long used_bytes;
};

struct Memory { // nvmlMemory_t
  unsigned long long total, free, used;
};

constexpr unsigned kForeignProcess = 1; // stands for all other processes

// A device handle is the device number plus one.
int deviceOf(void* handle) {
  return int(reinterpret_cast<uintptr_t>(handle)) - 1;
}

} // namespace

extern "C" {

int nvmlInit_v2() {
  return Success;
}
int nvmlInit() {
  return Success;
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = CUDART_VERSION;
  return Success;
}

int nvmlDeviceGetCount_v2(unsigned* devices) {
  *devices = unsigned(settings().devices);
  return Success;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  if (int(index) >= settings().devices)
    return InvalidArgument;
  *handle = reinterpret_cast<void*>(uintptr_t{index} + 1);
  return Success;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* text, void** handle) {
  unsigned domain, bus;
  if (std::sscanf(text, "%x:%x", &domain, &bus) != 2 || bus == 0)
    return InvalidArgument;
  return nvmlDeviceGetHandleByIndex_v2(bus - 1, handle);
}

int nvmlDeviceGetComputeRunningProcesses(void* handle, unsigned* amount, ProcessInfo* processes) {
  const int device = deviceOf(handle);
  size_t free, total;
  getMemoryInfo(device, &free, &total);
  const size_t own = fakecuda_used_bytes(device);
  const size_t foreign = total - free - own;
  const unsigned needed = foreign ? 2 : 1;
  const bool fits = *amount >= needed;
  *amount = needed;
  if (!fits)
    return InsufficientSize;
  if (foreign)
    *processes++ = {kForeignProcess, foreign};
  *processes = {unsigned(getpid()), own};
  return Success;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned, int*) {
  return NotSupported;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void*, unsigned, void*) {
  return NotSupported;
}
// Success with the record untouched: its state says "not supported" already.
int nvmlDeviceGetGpuFabricInfoV(void*, void*) {
  return Success;
}

} // extern "C"
