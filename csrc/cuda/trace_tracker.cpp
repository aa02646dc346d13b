#include "cuda/trace_tracker.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <exception>
#include <mutex>
#include <unordered_set>

#include "core/capture.h"
#include "core/ledger.h"
#include "cuda/allocator_snapshot.h"
#include "cuda/out_of_memory.h"

namespace leakguard {
namespace {

using c10::CachingDeviceAllocator::TraceEntry;

std::atomic<bool> following{false};

// Addresses that had an event while the ledger is being seeded. The mutex is held while a seed is checked and entered,
// and while an event notes itself before it changes the ledger: whichever comes first, the other sees it.
struct Seeding {
  std::atomic<bool> now{false};
  std::mutex mutex;
  std::array<std::unordered_set<uint64_t>, kCudaDevices> touched;
};

Seeding& seeding() noexcept {
  static auto* instance = new Seeding;
  return *instance;
}

void noteEvent(int device, uint64_t address) noexcept {
  Seeding& seeds = seeding();
  const std::lock_guard guard(seeds.mutex);
  try {
    seeds.touched[device].insert(address);
  } catch (const std::exception&) {
    seeds.now.store(false, std::memory_order_relaxed); // no memory to be exact with: give the seeds up
  }
}

void follow(const TraceEntry& entry) noexcept {
  if (!following.load(std::memory_order_relaxed)) {
    return;
  }
  const bool concernsBlock = entry.action_ == TraceEntry::ALLOC || entry.action_ == TraceEntry::FREE_REQUESTED ||
      entry.action_ == TraceEntry::FREE_COMPLETED;
  if (!concernsBlock || entry.device_ < 0 || entry.device_ >= kCudaDevices) {
    return;
  }
  const SampledCost cost;
  if (seeding().now.load(std::memory_order_acquire)) {
    noteEvent(entry.device_, entry.addr_);
  }
  const DeviceKey device = cudaDevice(entry.device_);
  if (entry.action_ == TraceEntry::FREE_REQUESTED) {
    ledger().freeRequested(device, entry.addr_);
    return;
  }
  if (entry.action_ == TraceEntry::FREE_COMPLETED) {
    ledger().retired(device, entry.addr_);
    return;
  }
  PendingContext* pending = pendingContext();
  Context context = pending != nullptr && pending->set ? pending->context : captureContext();
  if (pending != nullptr) {
    pending->set = false;
    context.flags |= pending->replay ? block_flag::kReplay : 0;
  }
  const uint16_t pool = cudaPools().numberOf(poolHandle(entry.mempool_));
  context.flags |= pool != 0 ? block_flag::kPrivatePool : 0;
  const uint16_t stream = cudaStreams().numberOf(reinterpret_cast<uintptr_t>(entry.stream_));
  ledger().born(device, entry.addr_, entry.size_, context, stream, pool);
}

void silenceInChild() noexcept { // the parent's locks may have been held at the fork
  following.store(false, std::memory_order_relaxed);
  setWrapperCaptures(false);
}

void dropCudaBlocks() {
  for (const Block& block : ledger().snapshot().blocks) {
    if (isCuda(block.device)) {
      ledger().retired(block.device, block.address);
    }
  }
}

void forgetEvents() noexcept { // the mutex is held
  for (auto& touched : seeding().touched) {
    touched.clear();
  }
}

void enterSeeds(const AllocatorState& state) {
  Context context;
  context.flags = block_flag::kSeeded;
  Seeding& seeds = seeding();
  for (const AllocatorBlock& block : state.blocks) {
    const std::lock_guard guard(seeds.mutex);
    if (!seeds.now.load(std::memory_order_relaxed) || seeds.touched[indexOf(block.device)].contains(block.address)) {
      continue;
    }
    Context own = context;
    own.flags |= block.pool != 0 ? block_flag::kPrivatePool : 0;
    ledger().born(block.device, block.address, block.requested, own, block.stream, block.pool);
    if (!block.allocated) {
      ledger().freeRequested(block.device, block.address);
    }
  }
}

} // namespace

const char* attachTracker(CudaAllocator& inner) noexcept {
  static std::mutex mutex;
  static bool attached = false;
  const std::lock_guard guard(mutex);
  if (attached) {
    return "";
  }
  try {
    ledger(); // made now, not inside an allocation
    seeding();
    cudaStreams();
    cudaPools();
    inner.attachAllocatorTraceTracker(&follow);
    attached = true;
    pthread_atfork(nullptr, nullptr, silenceInChild);
    observeOutOfMemory(inner);
    return "";
  } catch (const std::exception&) {
    return attached ? "" : "this CUDA allocator reports no allocations";
  }
}

const char* followTrace(CudaAllocator& inner) noexcept {
  Seeding& seeds = seeding();
  const char* why = "";
  try {
    stopFollowing();
    dropCudaBlocks();
    {
      const std::lock_guard guard(seeds.mutex);
      forgetEvents();
      seeds.now.store(true, std::memory_order_seq_cst);
    }
    following.store(true, std::memory_order_seq_cst);
    setWrapperCaptures(true);
    enterSeeds(readAllocator(inner));
  } catch (const std::exception&) {
    following.store(true, std::memory_order_relaxed);
    why = "what the CUDA allocator held before is not known: its snapshot failed";
  }
  const std::lock_guard guard(seeds.mutex);
  seeds.now.store(false, std::memory_order_release);
  forgetEvents();
  return why;
}

void stopFollowing() noexcept {
  following.store(false, std::memory_order_relaxed);
  setWrapperCaptures(false);
}

bool followingTrace() noexcept {
  return following.load(std::memory_order_relaxed);
}

HandleTable& cudaStreams() noexcept {
  static auto* table = new HandleTable;
  return *table;
}

HandleTable& cudaPools() noexcept {
  static auto* table = new HandleTable;
  return *table;
}

uint64_t poolHandle(c10::MempoolId_t pool) noexcept { // both count from 1 as pools are made
  return (static_cast<uint64_t>(pool.first) << 32) | (static_cast<uint64_t>(pool.second) & 0xffffffffU);
}

} // namespace leakguard
