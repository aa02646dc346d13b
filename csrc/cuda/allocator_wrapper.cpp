#include "cuda/allocator_wrapper.h"

#include <atomic>
#include <utility>

#include "core/capture.h"
#include "torch/torch_version.h"

namespace leakguard {
namespace {

namespace caching = c10::cuda::CUDACachingAllocator;
using c10::DeviceIndex;
using c10::MempoolId_t;

std::atomic<bool> captures{false};

// The context of the allocation made inside the scope, left where the tracker finds it. An allocation that fails throws
// through here: the next one must not inherit its context.
class CaptureScope {
 public:
  explicit CaptureScope(uint8_t flags) noexcept {
    if (!captures.load(std::memory_order_relaxed)) {
      return;
    }
    const SampledCost cost;
    pending_ = pendingContext();
    if (pending_ != nullptr) {
      pending_->context = captureContext();
      pending_->context.flags |= flags;
      pending_->set = true;
    }
  }
  ~CaptureScope() {
    if (pending_ != nullptr) {
      pending_->set = false;
    }
  }
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;

 private:
  PendingContext* pending_ = nullptr;
};

class ReplayScope {
 public:
  ReplayScope() noexcept : pending_(pendingContext()) {
    if (pending_ != nullptr) {
      pending_->replay = true;
    }
  }
  ~ReplayScope() {
    if (pending_ != nullptr) {
      pending_->replay = false;
    }
  }
  ReplayScope(const ReplayScope&) = delete;
  ReplayScope& operator=(const ReplayScope&) = delete;

 private:
  PendingContext* pending_;
};

class AllocatorWrapper final : public CudaAllocator {
 public:
  AllocatorWrapper(CudaAllocator& inner, void (*onInit)() noexcept) : inner_(inner), onInit_(onInit) {}

  // Allocations: the context is read first.
  c10::DataPtr allocate(size_t bytes) override {
    const CaptureScope scope(0);
    return inner_.allocate(bytes);
  }
  void* raw_alloc(size_t bytes) override {
    const CaptureScope scope(block_flag::kRaw);
    return inner_.raw_alloc(bytes);
  }
  void* raw_alloc_with_stream(size_t bytes, cudaStream_t stream) override {
    const CaptureScope scope(block_flag::kRaw);
    return inner_.raw_alloc_with_stream(bytes, stream);
  }
#if LEAKGUARD_TORCH_HAS_CAPTURE_MARKS
  c10::DataPtr allocateWithAddress(size_t bytes, void* address) override {
    const CaptureScope scope(0);
    return inner_.allocateWithAddress(bytes, address);
  }
#endif
  caching::CheckpointDelta setCheckpointPoolState(DeviceIndex device, std::shared_ptr<caching::AllocatorState> state)
      override {
    const ReplayScope scope;
    return inner_.setCheckpointPoolState(device, std::move(state));
  }
  void init(int devices) override {
    inner_.init(devices);
    onInit_();
  }

  // Everything else is forwarded. c10::Allocator:
  bool is_simple_data_ptr(const c10::DataPtr& block) const override {
    return inner_.is_simple_data_ptr(block);
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return inner_.raw_deleter();
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    inner_.copy_data(to, from, bytes);
  }

  // c10::DeviceAllocator:
  bool initialized() override {
    return inner_.initialized();
  }
  void emptyCache(MempoolId_t pool = {0, 0}) override {
    inner_.emptyCache(pool);
  }
  void recordStream(const c10::DataPtr& block, c10::Stream stream) override {
    inner_.recordStream(block, stream);
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device) override {
    return inner_.getDeviceStats(device);
  }
  void resetAccumulatedStats(DeviceIndex device) override {
    inner_.resetAccumulatedStats(device);
  }
  void resetPeakStats(DeviceIndex device) override {
    inner_.resetPeakStats(device);
  }
  std::pair<size_t, size_t> getMemoryInfo(DeviceIndex device) override {
    return inner_.getMemoryInfo(device);
  }

  // CUDAAllocator:
  void raw_delete(void* block) override {
    inner_.raw_delete(block);
  }
  double getMemoryFraction(DeviceIndex device) override {
    return inner_.getMemoryFraction(device);
  }
  void setMemoryFraction(double fraction, DeviceIndex device) override {
    inner_.setMemoryFraction(fraction, device);
  }
  std::vector<caching::StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex device) override {
    return inner_.getExpandableSegmentSizes(device);
  }
  void enable(bool on) override {
    inner_.enable(on);
  }
  bool isEnabled() const override {
    return inner_.isEnabled();
  }
  void cacheInfo(DeviceIndex device, size_t* largest) override {
    inner_.cacheInfo(device, largest);
  }
  void* getBaseAllocation(void* block, size_t* bytes) override {
    return inner_.getBaseAllocation(block, bytes);
  }
  void recordStream(const c10::DataPtr& block, c10::cuda::CUDAStream stream) override {
    inner_.recordStream(block, stream);
  }
  caching::SnapshotInfo snapshot(MempoolId_t pool = {0, 0}, bool traces = true) override {
    return inner_.snapshot(pool, traces);
  }
  void beginAllocateToPool(DeviceIndex device, MempoolId_t pool, std::function<bool(cudaStream_t)> filter) override {
    inner_.beginAllocateToPool(device, pool, std::move(filter));
  }
  void endAllocateToPool(DeviceIndex device, MempoolId_t pool) override {
    inner_.endAllocateToPool(device, pool);
  }
#if LEAKGUARD_TORCH_HAS_CAPTURE_MARKS
  void markCaptureBegin(DeviceIndex device) override {
    inner_.markCaptureBegin(device);
  }
  void markCaptureEnd(DeviceIndex device) override {
    inner_.markCaptureEnd(device);
  }
#endif
  void releasePool(DeviceIndex device, MempoolId_t pool) override {
    inner_.releasePool(device, pool);
  }
  int getPoolUseCount(DeviceIndex device, MempoolId_t pool) override {
    return inner_.getPoolUseCount(device, pool);
  }
  void createOrIncrefPool(DeviceIndex device, MempoolId_t pool, std::shared_ptr<CudaAllocator> owner = nullptr)
      override {
    inner_.createOrIncrefPool(device, pool, std::move(owner));
  }
  void setUseOnOOM(DeviceIndex device, MempoolId_t pool, bool use) override {
    inner_.setUseOnOOM(device, pool, use);
  }
  void setNoSplit(DeviceIndex device, MempoolId_t pool) override {
    inner_.setNoSplit(device, pool);
  }
  bool checkPoolLiveAllocations(DeviceIndex device, MempoolId_t pool, const std::unordered_set<void*>& live) override {
    return inner_.checkPoolLiveAllocations(device, pool, live);
  }
  caching::ShareableHandle shareIpcHandle(void* block) override {
    return inner_.shareIpcHandle(block);
  }
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override {
    return inner_.getIpcDevPtr(std::move(handle));
  }
  bool isHistoryEnabled() override {
    return inner_.isHistoryEnabled();
  }
#if LEAKGUARD_TORCH_HAS_OOM_REJECTION
  std::shared_ptr<c10::GatheredContext> getContextForPointer(const void* block) override {
    return inner_.getContextForPointer(block);
  }
  void attachOomRejectionObserver(caching::OomRejectionObserver observer) override {
    inner_.attachOomRejectionObserver(std::move(observer));
  }
#endif
  void recordHistory(
      bool on,
      caching::CreateContextFn makeContext,
      size_t entries,
      caching::RecordContext when,
      bool clear,
      const std::vector<std::string>& skipped) override {
    inner_.recordHistory(on, makeContext, entries, when, clear, skipped);
  }
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& metadata) override {
    inner_.recordAnnotation(metadata);
  }
  void pushCompileContext(std::string& context) override {
    inner_.pushCompileContext(context);
  }
  void popCompileContext() override {
    inner_.popCompileContext();
  }
  void setUserMetadata(const std::string& metadata) override {
    inner_.setUserMetadata(metadata);
  }
  std::string getUserMetadata() override {
    return inner_.getUserMetadata();
  }
#if LEAKGUARD_TORCH_HAS_MEMORY_ANNOTATION
  bool supportsUserMetadata() override {
    return inner_.supportsUserMetadata();
  }
  void annotateMemory(const void* block, const std::string& metadata) override {
    inner_.annotateMemory(block, metadata);
  }
#endif
  void attachOutOfMemoryObserver(caching::OutOfMemoryObserver observer) override {
    inner_.attachOutOfMemoryObserver(std::move(observer));
  }
  void attachAllocatorTraceTracker(caching::AllocatorTraceTracker tracker) override {
    inner_.attachAllocatorTraceTracker(std::move(tracker));
  }
  void enablePeerAccess(DeviceIndex device, DeviceIndex peer) override {
    inner_.enablePeerAccess(device, peer);
  }
  cudaError_t memcpyAsync(
      void* to,
      int toDevice,
      const void* from,
      int fromDevice,
      size_t bytes,
      cudaStream_t stream,
      bool peerToPeer) override {
    return inner_.memcpyAsync(to, toDevice, from, fromDevice, bytes, stream, peerToPeer);
  }
  std::shared_ptr<caching::AllocatorState> getCheckpointState(DeviceIndex device, MempoolId_t pool) override {
    return inner_.getCheckpointState(device, pool);
  }
  std::string name() override {
    return inner_.name();
  }

 private:
  CudaAllocator& inner_;
  void (*onInit_)() noexcept;
};

} // namespace

CudaAllocator& wrapCudaAllocator(CudaAllocator& inner, void (*onInit)() noexcept) {
  static auto* wrapper = new AllocatorWrapper(inner, onInit);
  return *wrapper;
}

void setWrapperCaptures(bool on) noexcept {
  captures.store(on, std::memory_order_relaxed);
}

} // namespace leakguard
