// Copies and fills.  They are real, unlike kernels.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "model.h"

namespace fakecuda {

namespace {

constexpr size_t kScalarBytes = 16;

// Kernels compute nothing, so device memory holds only what copies put there,
// and a block may still hold what its previous owner was sent.  Small
// read-backs (at most kScalarBytes) steer programs (.item(), nonzero, masked_select), so they see
// bytes only if a copy wrote them after the latest kernel; otherwise zeros.
struct Writes {
  uint64_t epoch = 0; // kernel count the entries belong to
  std::map<uintptr_t, uintptr_t> ranges; // start -> end
  void renew() {
    if (epoch == counter(Count::Launch))
      return;
    ranges.clear();
    epoch = counter(Count::Launch);
  }
};

Writes& writes() {
  static auto* instance = new Writes;
  return *instance;
}

void rememberWrite(const void* target, size_t bytes) {
  Lock lock(modelMutex());
  writes().renew();
  const auto start = reinterpret_cast<uintptr_t>(target);
  uintptr_t& end = writes().ranges[start];
  end = std::max(end, start + bytes);
}

bool wasWritten(const void* source, size_t bytes) {
  Lock lock(modelMutex());
  writes().renew();
  const auto start = reinterpret_cast<uintptr_t>(source);
  auto next = writes().ranges.upper_bound(start);
  return next != writes().ranges.begin() && start + bytes <= (--next)->second;
}

} // namespace

cudaError_t copy(void* target, const void* source, size_t bytes, cudaMemcpyKind kind, Stream& stream) {
  count(Count::Copy);
  if (bytes == 0)
    return cudaSuccess;
  bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind == cudaMemcpyDefault) {
    to_device = isDeviceRange(target, bytes);
    from_device = isDeviceRange(source, bytes);
  } else if ((to_device && !isDeviceRange(target, bytes)) || (from_device && !isDeviceRange(source, bytes))) {
    return cudaErrorInvalidValue;
  }
  submit(stream, [=] {
    const bool guarded = from_device && bytes <= kScalarBytes;
    const bool defined = !from_device || wasWritten(source, bytes);
    if (guarded && !to_device && !defined)
      std::memset(target, 0, bytes);
    else
      std::memmove(target, source, bytes);
    if (to_device && defined)
      rememberWrite(target, bytes);
  });
  return cudaSuccess;
}

cudaError_t fill(void* target, int value, size_t bytes, Stream& stream) {
  count(Count::Memset);
  if (bytes == 0)
    return cudaSuccess;
  Allocation allocation;
  if (!findAllocation(target, &allocation, nullptr))
    return cudaErrorInvalidValue;
  submit(stream, [=] {
    char* const start = static_cast<char*>(target);
    char* const end = start + bytes;
    char* const first = reinterpret_cast<char*>(roundUp(uintptr_t(start), 4096));
    char* const last = reinterpret_cast<char*>(uintptr_t(end) / 4096 * 4096);
    if (value == 0 && first < last && allocation.onDevice()) {
      // Dropping whole pages zeroes them and gives their memory back.
      std::memset(start, 0, first - start);
      madvise(first, last - first, MADV_DONTNEED);
      std::memset(last, 0, end - last);
    } else {
      std::memset(target, value, bytes);
    }
    if (allocation.onDevice())
      rememberWrite(target, bytes);
  });
  return cudaSuccess;
}

} // namespace fakecuda
