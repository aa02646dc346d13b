// The machine as a whole: settings, call counters, devices and their budget.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "model.h"

namespace fakecuda {

namespace {

long environmentNumber(const char* name, long fallback) {
  const char* text = std::getenv(name);
  return text && *text ? std::strtol(text, nullptr, 0) : fallback;
}

Settings readSettings() {
  Settings s{};
  s.devices = static_cast<int>(std::clamp(environmentNumber("FAKECUDA_DEVICES", 1), 0L, long{kMaxDevices}));
  s.memory_bytes = size_t(environmentNumber("FAKECUDA_MEMORY_MIB", 16384)) << 20;
  const char* capability = std::getenv("FAKECUDA_CAPABILITY");
  if (!capability || std::sscanf(capability, "%d.%d", &s.capability_major, &s.capability_minor) != 2) {
    s.capability_major = 8;
    s.capability_minor = 0;
  }
  s.multiprocessors = s.capability_major >= 10 ? 148 : s.capability_major == 9 ? 132 : 108;
  return s;
}

} // namespace

const Settings& settings() {
  static const Settings instance = readSettings();
  return instance;
}

std::atomic<uint64_t> counters[static_cast<int>(Count::End)];

std::mutex& modelMutex() {
  // Leaked on purpose: CUDA calls still arrive from static destructors.
  static auto* mutex = new std::mutex;
  return *mutex;
}

// ----------------------------------------------------------------- devices

thread_local int current_device = 0;

namespace {

struct Device {
  std::atomic<bool> active{false};
  size_t used = 0;
  size_t foreign = 0;
  size_t charged() const {
    return used + foreign;
  }
};

Device devices[kMaxDevices];
std::atomic<long> allocations_to_skip{0}, allocations_to_fail{0};

// cuDNN talks to the driver through its own, private copy of the runtime and
// cannot work here.  PyTorch has native kernels for everything; switching it
// over must not need a change in the user's script.
void switchOffCudnnInPytorch() {
  void* library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (!library)
    return;
  auto context = reinterpret_cast<void* (*)()>(dlsym(library, "_ZN2at13globalContextEv")); // at::globalContext()
  for (const char* setter :
       {"_ZN2at7Context19setUserEnabledCuDNNEb", // at::Context::setUserEnabledCuDNN(bool)
        "_ZN2at7Context14setSDPUseCuDNNEb"}) { // at::Context::setSDPUseCuDNN(bool)
    auto set = reinterpret_cast<void (*)(void*, bool)>(dlsym(library, setter));
    if (context && set)
      set(context(), false);
  }
  dlclose(library);
}

bool injectedFailure() {
  if (allocations_to_fail.load(std::memory_order_relaxed) <= 0)
    return false;
  if (allocations_to_skip.fetch_sub(1) > 0)
    return false;
  return allocations_to_fail.fetch_sub(1) > 0;
}

} // namespace

bool isActive(int device) {
  return devices[device].active;
}

void activateDevice(int device) {
  if (devices[device].active.load(std::memory_order_acquire))
    return;
  static std::once_flag once;
  std::call_once(once, switchOffCudnnInPytorch);
  devices[device].active = true;
}

void getMemoryInfo(int device, size_t* free, size_t* total) {
  Lock lock(modelMutex());
  *total = settings().memory_bytes;
  *free = *total - std::min(*total, devices[device].charged());
}

bool charge(int device, size_t bytes) {
  activateDevice(device);
  if (injectedFailure())
    return false;
  Lock lock(modelMutex());
  Device& d = devices[device];
  if (d.charged() + bytes > settings().memory_bytes)
    return false;
  d.used += bytes;
  return true;
}

void discharge(int device, size_t bytes) {
  Lock lock(modelMutex());
  devices[device].used -= bytes;
}

} // namespace fakecuda

// ------------------------------------------------------ control: the machine

using namespace fakecuda;

static std::atomic<const char*> last_unimplemented{""};

extern "C" {

int fakecuda_is_active(void) {
  return 1;
}

size_t fakecuda_used_bytes(int device) {
  Lock lock(modelMutex());
  return devices[device].used;
}

void fakecuda_set_foreign_bytes(int device, size_t bytes) {
  Lock lock(modelMutex());
  devices[device].foreign = bytes;
}

void fakecuda_fail_allocations(long skip, long count) {
  allocations_to_skip = skip;
  allocations_to_fail = count;
}

uint64_t fakecuda_counter(const char* name) {
  static const char* const names[] = {
      "malloc",
      "free",
      "launch",
      "copy",
      "memset",
      "event_record",
      "event_query",
      "event_sync",
      "stream_sync",
      "device_sync",
      "host_alloc",
      "host_free",
      "vmm_map",
      "vmm_unmap",
      "graph_launch",
      "unimplemented"};
  static_assert(std::size(names) == static_cast<size_t>(Count::End));
  for (size_t i = 0; i < std::size(names); ++i)
    if (!std::strcmp(name, names[i]))
      return counters[i];
  return UINT64_MAX;
}

const char* fakecuda_last_unimplemented(void) {
  return last_unimplemented;
}

int fakecuda_unimplemented(const char* api) {
  count(Count::Unimplemented);
  if (last_unimplemented.exchange(api) != api)
    std::fprintf(stderr, "[fakecuda] %s is not provided\n", api);
  return cudaErrorNotSupported;
}

} // extern "C"
