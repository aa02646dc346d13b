// _pairs: allocations and frees of the CUDA caching allocator from C++, with nothing around them. For the benchmarks.
#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/csrc/utils/pybind.h>

#include <vector>

namespace {

using Allocator = c10::cuda::CUDACachingAllocator::CUDAAllocator;

Allocator& allocator() {
  return *c10::cuda::CUDACachingAllocator::allocator.load();
}

void pairs(long count, size_t bytes) {
  for (long i = 0; i < count; ++i) {
    allocator().allocate(bytes);
  }
}

// All alive at once, then freed in the order of birth.
void held(long count, size_t bytes) {
  std::vector<c10::DataPtr> blocks;
  blocks.reserve(count);
  for (long i = 0; i < count; ++i) {
    blocks.push_back(allocator().allocate(bytes));
  }
}

} // namespace

PYBIND11_MODULE(_pairs, m) {
  m.def("pairs", &pairs, pybind11::arg("count"), pybind11::arg("bytes"));
  m.def("held", &held, pybind11::arg("count"), pybind11::arg("bytes"));
}
