// libcuda.so.1: the few driver functions PyTorch asks for.  Virtual memory is
// real address space; a physical handle is only a claim on the budget, and its
// pages come into being where it is mapped.
#include <cuda.h>
#include <sys/mman.h>

#include <cstring>
#include <map>

#include "model.h"

using namespace fakecuda;

namespace {

struct PhysicalMemory {
  size_t size;
  CUmemAllocationProp properties;
  int references = 1; // the handle's owner, and the mapping
};

std::map<CUdeviceptr, PhysicalMemory*>& mappings() {
  static auto* map = new std::map<CUdeviceptr, PhysicalMemory*>;
  return *map;
}

PhysicalMemory* physical(CUmemGenericAllocationHandle handle) {
  return reinterpret_cast<PhysicalMemory*>(handle);
}

void release(PhysicalMemory* memory) { // model lock not held
  {
    Lock lock(modelMutex());
    if (--memory->references > 0)
      return;
  }
  discharge(memory->properties.location.id, memory->size);
  delete memory;
}

bool valid(CUdevice device) {
  return device >= 0 && device < settings().devices;
}

int attribute(CUdevice_attribute which) {
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return settings().capability_major;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return settings().capability_minor;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return settings().multiprocessors;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
      return 1;
    default: // GPUDirect, fabric handles, multicast, ...: not supported
      return 0;
  }
}

} // namespace

extern "C" {

CUresult cuInit(unsigned) {
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  switch (error) {
    case CUDA_SUCCESS:
      *text = "no error";
      break;
    case CUDA_ERROR_INVALID_VALUE:
      *text = "invalid argument";
      break;
    case CUDA_ERROR_OUT_OF_MEMORY:
      *text = "out of memory";
      break;
    case CUDA_ERROR_NOT_SUPPORTED:
      *text = "operation not supported";
      break;
    default:
      *text = "unknown error";
      break;
  }
  return CUDA_SUCCESS;
}

// ------------------------------------------------- devices and contexts

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device) {
  if (!valid(device))
    return CUDA_ERROR_INVALID_DEVICE;
  *value = attribute(which);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  if (!valid(device))
    return CUDA_ERROR_INVALID_DEVICE;
  *flags = 0;
  *active = isActive(device);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = isActive(current_device) ? reinterpret_cast<CUcontext>(uintptr_t(current_device) + 1) : nullptr;
  return CUDA_SUCCESS;
}

// --------------------------------------------- virtual memory management

CUresult cuMemCreate(
    CUmemGenericAllocationHandle* handle,
    size_t size,
    const CUmemAllocationProp* properties,
    unsigned long long) {
  if (!valid(properties->location.id) || size == 0 || size % kDriverPage)
    return CUDA_ERROR_INVALID_VALUE;
  // Refusing fabric handles makes PyTorch fall back to file descriptors.
  if (properties->requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (!charge(properties->location.id, size))
    return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = reinterpret_cast<CUmemGenericAllocationHandle>(new PhysicalMemory{size, *properties});
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  release(physical(handle));
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* base, size_t size, size_t alignment, CUdeviceptr, unsigned long long) {
  void* pages = mapPages(size, alignment > kDriverPage ? alignment : kDriverPage);
  if (!pages || mprotect(pages, size, PROT_NONE))
    return CUDA_ERROR_OUT_OF_MEMORY;
  *base = reinterpret_cast<CUdeviceptr>(pages);
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr base, size_t size) {
  unmapPages(reinterpret_cast<void*>(base), size);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(
    CUdeviceptr base,
    size_t size,
    size_t offset,
    CUmemGenericAllocationHandle handle,
    unsigned long long) {
  count(Count::VmmMap);
  PhysicalMemory* memory = physical(handle);
  if (offset != 0 || size != memory->size)
    return CUDA_ERROR_INVALID_VALUE;
  {
    Lock lock(modelMutex());
    ++memory->references;
    mappings()[base] = memory;
  }
  addAllocation(reinterpret_cast<void*>(base), {size, memory->properties.location.id, MemoryKind::Virtual});
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr base, size_t size, const CUmemAccessDesc*, size_t) {
  return mprotect(reinterpret_cast<void*>(base), size, PROT_READ | PROT_WRITE) ? CUDA_ERROR_INVALID_VALUE
                                                                               : CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr base, size_t size) {
  count(Count::VmmUnmap);
  for (CUdeviceptr address = base; address < base + size;) {
    PhysicalMemory* memory;
    {
      Lock lock(modelMutex());
      auto mapping = mappings().find(address);
      if (mapping == mappings().end())
        return CUDA_ERROR_INVALID_VALUE;
      memory = mapping->second;
      mappings().erase(mapping);
    }
    void* pages = reinterpret_cast<void*>(address);
    const size_t length = memory->size;
    Allocation removed;
    removeAllocation(pages, &removed);
    madvise(pages, length, MADV_DONTNEED);
    mprotect(pages, length, PROT_NONE);
    release(memory);
    address += length;
  }
  return CUDA_SUCCESS;
}

// ---------------------------------------------------------------- lookup

// Answers for what PyTorch insists on finding but nothing here asks for:
// sharing memory between processes, and queries about it.
static CUresult notSupported() {
  return CUDA_ERROR_NOT_SUPPORTED;
}

void* fakecuda_find_driver_function(const char* name) {
  // What cudaGetDriverEntryPoint answers.  Absent names are optional features
  // (multicast, green contexts, driver logs); PyTorch does without them.
  static const struct {
    const char* name;
    void* function;
  } table[] = {
#define ENTRY(name) {#name, reinterpret_cast<void*>(&name)}
#define NOT_SUPPORTED(name) \
  { #name, reinterpret_cast < void*>(&notSupported) }
      ENTRY(cuInit),
      ENTRY(cuGetErrorString),
      ENTRY(cuDeviceGetAttribute),
      ENTRY(cuMemCreate),
      ENTRY(cuMemRelease),
      ENTRY(cuMemAddressReserve),
      ENTRY(cuMemAddressFree),
      ENTRY(cuMemMap),
      ENTRY(cuMemSetAccess),
      ENTRY(cuMemUnmap),
      NOT_SUPPORTED(cuDeviceGet),
      NOT_SUPPORTED(cuMemGetAddressRange),
      NOT_SUPPORTED(cuMemGetAllocationGranularity),
      NOT_SUPPORTED(cuMemRetainAllocationHandle),
      NOT_SUPPORTED(cuMemGetAllocationPropertiesFromHandle),
      NOT_SUPPORTED(cuMemExportToShareableHandle),
      NOT_SUPPORTED(cuMemImportFromShareableHandle),
      NOT_SUPPORTED(cuMemsetD32Async),
      NOT_SUPPORTED(cuStreamWriteValue32),
#undef ENTRY
#undef NOT_SUPPORTED
  };
  for (const auto& entry : table)
    if (!std::strcmp(entry.name, name))
      return entry.function;
  return nullptr;
}

} // extern "C"
