// The address registry, and the pools of cudaMallocAsync.
#include <sys/mman.h>

#include <algorithm>

#include "model.h"

namespace fakecuda {

namespace {

std::map<uintptr_t, Allocation>& allocations() {
  static auto* map = new std::map<uintptr_t, Allocation>;
  return *map;
}

size_t pinned = 0;

const std::pair<const uintptr_t, Allocation>* lookup(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  auto next = allocations().upper_bound(address);
  if (next == allocations().begin())
    return nullptr;
  --next;
  return address - next->first < next->second.size ? &*next : nullptr;
}

bool onDevice(const void* pointer) {
  const auto* entry = lookup(pointer);
  return entry && entry->second.onDevice();
}

} // namespace

void* mapPages(size_t bytes, size_t alignment) {
  const size_t length = bytes + alignment;
  void* raw = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED)
    return nullptr;
  const auto start = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t base = roundUp(start, alignment);
  const uintptr_t end = base + bytes;
  if (base > start)
    munmap(raw, base - start);
  if (start + length > end)
    munmap(reinterpret_cast<void*>(end), start + length - end);
  void* result = reinterpret_cast<void*>(base);
  // A stray touch must cost 4 KiB of this machine, not 2 MiB.
  madvise(result, bytes, MADV_NOHUGEPAGE);
  return result;
}

void unmapPages(void* base, size_t bytes) {
  munmap(base, bytes);
}

void addAllocation(void* base, Allocation allocation) {
  Lock lock(modelMutex());
  if (allocation.kind == MemoryKind::Pinned)
    pinned += allocation.size;
  allocations()[reinterpret_cast<uintptr_t>(base)] = allocation;
}

bool removeAllocation(const void* base, Allocation* removed) {
  Lock lock(modelMutex());
  auto found = allocations().find(reinterpret_cast<uintptr_t>(base));
  if (found == allocations().end())
    return false;
  *removed = found->second;
  if (removed->kind == MemoryKind::Pinned)
    pinned -= removed->size;
  allocations().erase(found);
  return true;
}

bool findAllocation(const void* pointer, Allocation* found, void** base) {
  Lock lock(modelMutex());
  const auto* entry = lookup(pointer);
  if (!entry)
    return false;
  *found = entry->second;
  if (base)
    *base = reinterpret_cast<void*>(entry->first);
  return true;
}

bool isDeviceRange(const void* pointer, size_t bytes) {
  Lock lock(modelMutex());
  return onDevice(pointer) && (bytes == 0 || onDevice(static_cast<const char*>(pointer) + bytes - 1));
}

size_t pinnedBytes() {
  Lock lock(modelMutex());
  return pinned;
}

// ------------------------------------------------------------------- pools

namespace {

struct Pool {
  PoolStatistics statistics{};
  std::multimap<size_t, void*> cached; // by size
};

Pool& poolOf(int device) {
  static auto* pools = new Pool[kMaxDevices];
  return pools[device];
}

} // namespace

PoolStatistics& poolStatistics(int device) {
  return poolOf(device).statistics;
}

void* poolAllocate(int device, size_t bytes) {
  Pool& pool = poolOf(device);
  // The pool hands out 512-byte multiples; every block is its own mapping, so
  // small blocks do not share pages as they would on a device.
  const size_t size = roundUp(bytes, bytes >= kDriverPage ? kDriverPage : 512);
  void* base = nullptr;
  {
    Lock lock(modelMutex());
    auto reusable = pool.cached.find(size);
    if (reusable != pool.cached.end()) {
      base = reusable->second;
      pool.cached.erase(reusable);
    }
  }
  if (!base) {
    if (!charge(device, size)) {
      poolTrim(device, 0);
      if (!charge(device, size))
        return nullptr;
    }
    base = mapPages(size, 4096);
    if (!base) {
      discharge(device, size);
      return nullptr;
    }
    Lock lock(modelMutex());
    pool.statistics.reserved += size;
    pool.statistics.reserved_high = std::max(pool.statistics.reserved_high, pool.statistics.reserved);
  }
  addAllocation(base, {size, device, MemoryKind::Pool});
  Lock lock(modelMutex());
  pool.statistics.used += size;
  pool.statistics.used_high = std::max(pool.statistics.used_high, pool.statistics.used);
  return base;
}

bool poolFree(void* pointer) {
  Allocation allocation;
  if (!removeAllocation(pointer, &allocation))
    return false;
  Pool& pool = poolOf(allocation.device);
  Lock lock(modelMutex());
  pool.statistics.used -= allocation.size;
  pool.cached.emplace(allocation.size, pointer);
  return true;
}

void poolTrim(int device, size_t keep_bytes) {
  Pool& pool = poolOf(device);
  size_t released = 0;
  {
    Lock lock(modelMutex());
    while (!pool.cached.empty() && pool.statistics.reserved > keep_bytes) {
      auto largest = std::prev(pool.cached.end());
      unmapPages(largest->second, roundUp(largest->first, 4096));
      pool.statistics.reserved -= largest->first;
      released += largest->first;
      pool.cached.erase(largest);
    }
  }
  discharge(device, released);
}

} // namespace fakecuda

extern "C" size_t fakecuda_pinned_bytes(void) {
  return fakecuda::pinnedBytes();
}
