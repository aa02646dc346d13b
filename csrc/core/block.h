#pragma once

#include <cstdint>
#include <string>

#include "core/visibility.h"

namespace leakguard {

// Where a block lives. CUDA devices keep their index; host memory has two rows of its own.
enum class DeviceKey : uint8_t { Cpu = 64, Pinned = 65 };
inline constexpr int kCudaDevices = 64;
inline constexpr int kDevices = 66;

constexpr DeviceKey cudaDevice(int index) noexcept {
  return static_cast<DeviceKey>(index);
}
constexpr int indexOf(DeviceKey device) noexcept {
  return static_cast<int>(device);
}
constexpr bool isCuda(DeviceKey device) noexcept {
  return indexOf(device) < kCudaDevices;
}
LEAKGUARD_API std::string nameOf(DeviceKey device); // "cuda:0", "cpu", "pinned"

// What the program was doing when a block was born.
enum class Phase : uint8_t { Other = 0, Forward = 1, Backward = 2, Optimizer = 3 };
LEAKGUARD_API const char* nameOf(Phase phase) noexcept;

enum class BlockState : uint8_t {
  Free = 0, // the record is not in use
  Live = 1, // counted as allocated
  PendingFree = 2 // its owner let go, a stream still uses it: active, no longer allocated
};

namespace block_flag {
inline constexpr uint8_t kRaw = 1; // no tensor: raw_alloc and friends
inline constexpr uint8_t kReplay = 2; // born while a pool's checkpoint was restored
inline constexpr uint8_t kSeeded = 4; // found in a snapshot when watching began late: birth unknown
inline constexpr uint8_t kUserLineInBackward = 8; // the line ran inside the backward pass (a hook, a custom Function)
inline constexpr uint8_t kPrivatePool = 16; // in the pool of a captured graph, or in a MemPool
inline constexpr uint8_t kRecomputed = 32; // by a forward that runs again inside the backward pass (checkpointing)
} // namespace block_flag

// One live block. Bytes are what the program requested; what the allocator set aside is joined in at report time.
struct alignas(64) Block { // one cache line
  uint64_t address;
  uint64_t requested; // bytes
  uint64_t birth; // event number of its shard: tells two blocks at one address apart
  uint32_t step; // step of birth
  uint32_t group; // index in SiteGroups
  uint32_t module; // index in the module names, 0 = none
  uint32_t node; // name of the autograd node it was born in, 0 = none
  uint32_t stream; // index in the stream table, 0 = default or host
  uint16_t thread;
  uint16_t pool; // index in the pool table, 0 = the default pools
  DeviceKey device;
  BlockState state;
  uint8_t flags;
};
static_assert(sizeof(Block) == 64, "host memory per live block is a stated cost");

} // namespace leakguard
