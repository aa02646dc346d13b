// The pretended machine: devices with a memory budget, an address registry,
// streams whose work can be held back, and captured graphs.  It lives in the
// fake driver library; the fake runtime and cuBLAS are thin layers over it.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "fakecuda.h"

namespace fakecuda {

constexpr int kMaxDevices = 16;
constexpr size_t kDriverPage = size_t{2} << 20; // granularity of device memory

inline size_t roundUp(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// ---------------------------------------------------------------- settings

struct Settings { // from the environment, see README.md
  int devices;
  size_t memory_bytes; // per device
  int capability_major, capability_minor;
  int multiprocessors;
};
const Settings& settings();

// ---------------------------------------------------------------- counters

enum class Count {
  Malloc,
  Free,
  Launch,
  Copy,
  Memset,
  EventRecord,
  EventQuery,
  EventSync,
  StreamSync,
  DeviceSync,
  HostAlloc,
  HostFree,
  VmmMap,
  VmmUnmap,
  GraphLaunch,
  Unimplemented,
  End
};
extern std::atomic<uint64_t> counters[static_cast<int>(Count::End)];
inline void count(Count which) {
  counters[static_cast<int>(which)].fetch_add(1, std::memory_order_relaxed);
}
inline uint64_t counter(Count which) {
  return counters[static_cast<int>(which)].load(std::memory_order_relaxed);
}

// One lock for everything that is not an atomic.  A leaf: nothing is called
// under it.
std::mutex& modelMutex();
using Lock = std::lock_guard<std::mutex>;

// ----------------------------------------------------------------- streams

// Completion state of a stream.  Outlives the stream, because events refer to
// it.  `submitted` and `stalled` are all that a launch touches.
struct Timeline {
  struct Wait { // work after `position` needs `target` of another timeline
    uint64_t position;
    std::shared_ptr<Timeline> other;
    uint64_t target;
  };
  std::atomic<uint64_t> submitted{0};
  std::atomic<bool> stalled{false};
  std::atomic<bool> has_waits{false};
  uint64_t completed = 0; // meaningful while stalled
  std::vector<Wait> waits;
};

struct GraphNode {
  std::vector<GraphNode*> dependencies;
  std::function<void()> effect; // empty for kernels
};

struct Graph {
  std::vector<std::shared_ptr<GraphNode>> nodes;
};

struct Stream;

struct Capture {
  uint64_t id;
  Graph* graph;
  Stream* origin;
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  std::vector<Stream*> members;
  bool invalidated = false;
};

// PyTorch keeps its streams in pools; none is ever destroyed.
struct Stream {
  int device;
  std::shared_ptr<Timeline> timeline = std::make_shared<Timeline>();
  std::atomic<Capture*> capture{nullptr};
  std::vector<GraphNode*> capture_tail; // what the next node depends on
};

struct Event {
  unsigned flags;
  std::shared_ptr<Timeline> timeline; // null: never recorded
  uint64_t position = 0;
  uint64_t capture_id = 0; // nonzero: recorded inside that capture
  std::vector<GraphNode*> capture_tail;
  std::chrono::steady_clock::time_point time;
};

Stream* createStream(int device);
Stream* defaultStream(int device);
// Resolves the special handles too (null, legacy, per-thread).
Stream& resolveStream(cudaStream_t handle);

bool isReached(const std::shared_ptr<Timeline>&, uint64_t position);
// Lets time pass until `position` is complete.
void complete(const std::shared_ptr<Timeline>&, uint64_t position);
void completeDevice(int device);
void addWait(Stream&, const Event&);

// ----------------------------------------------------------------- capture

Capture* findCapture(uint64_t id); // model lock held
cudaError_t beginCapture(Stream&, cudaStreamCaptureMode);
cudaError_t endCapture(Stream&, Graph** graph);
void joinCapture(Stream&, Capture&); // model lock held
// False while a capture forbids potentially unsafe calls on this thread;
// as on a real device, asking then also invalidates that capture.
bool unsafeCallAllowed();
extern thread_local cudaStreamCaptureMode thread_capture_mode;
void appendNode(Stream&, Capture&, std::function<void()> effect);

// Submits work: performs `effect` now, or records it if the stream captures.
template <class Effect>
void submit(Stream& stream, Effect&& effect) {
  if (Capture* capture = stream.capture.load(std::memory_order_acquire)) {
    appendNode(stream, *capture, std::forward<Effect>(effect));
    return;
  }
  effect();
  stream.timeline->submitted.fetch_add(1, std::memory_order_release);
}
// A kernel: no effect at all, but it may have overwritten anything.
void submitKernel(Stream&);

// ------------------------------------------------------------------ memory

enum class MemoryKind { Device, Pool, Virtual, Pinned };

struct Allocation {
  size_t size;
  int device;
  MemoryKind kind;
  bool onDevice() const {
    return kind != MemoryKind::Pinned;
  }
};

void activateDevice(int device); // "creates the primary context"
bool isActive(int device);
void getMemoryInfo(int device, size_t* free, size_t* total);

// Takes from the device budget; false: out of memory (or injected failure).
bool charge(int device, size_t bytes);
void discharge(int device, size_t bytes);

void* mapPages(size_t bytes, size_t alignment); // zeroed, unreserved
void unmapPages(void* base, size_t bytes);

void addAllocation(void* base, Allocation);
// Removes the allocation that starts at `base`; false if there is none.
bool removeAllocation(const void* base, Allocation* removed);
// The allocation containing `pointer`, copied; false if none does.
bool findAllocation(const void* pointer, Allocation* found, void** base);
bool isDeviceRange(const void* pointer, size_t bytes);
size_t pinnedBytes();

// cudaMallocAsync pools: freed memory stays with the pool until trimmed.
struct PoolStatistics {
  uint64_t reserved, reserved_high, used, used_high, release_threshold;
};
void* poolAllocate(int device, size_t bytes);
bool poolFree(void* pointer);
void poolTrim(int device, size_t keep_bytes);
PoolStatistics& poolStatistics(int device);

// ------------------------------------------------------------------ copies

cudaError_t copy(void* target, const void* source, size_t bytes, cudaMemcpyKind kind, Stream&);
cudaError_t fill(void* target, int value, size_t bytes, Stream&);

// ----------------------------------------------------------------- runtime

extern thread_local int current_device;

} // namespace fakecuda

// Shared with the generated stubs.
extern "C" {
FAKECUDA_API int fakecuda_unimplemented(const char* api);
FAKECUDA_API void* fakecuda_find_driver_function(const char* name);
}
