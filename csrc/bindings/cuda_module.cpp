// _cuda: what Python sees of the CUDA allocator. No logic: values in, values out. python/leakguard/_cuda.pyi is the
// contract.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "core/call_site.h"
#include "cuda/allocator_snapshot.h"
#include "cuda/attachment.h"
#include "cuda/known_residents.h"
#include "cuda/out_of_memory.h"
#include "cuda/trace_tracker.h"
#include "torch/pinned_allocator.h"

namespace py = pybind11;
using namespace leakguard;

namespace {

const char* nameOf(CudaTracking tracking) {
  switch (tracking) {
    case CudaTracking::Off:
      return "off";
    case CudaTracking::Waiting:
      return "waiting";
    case CudaTracking::Exact:
      return "exact";
    case CudaTracking::CountersOnly:
      return "counters";
  }
  return "";
}

py::tuple tupleOf(const CudaStatus& status) {
  return py::make_tuple(nameOf(status.tracking), status.wrapped, status.backend, status.why);
}

py::tuple poolOf(uint16_t number) {
  const uint64_t handle = cudaPools().handle(number);
  return py::make_tuple(handle >> 32, handle & 0xffffffffU);
}

py::list blocksOf(const AllocatorState& state) {
  py::list blocks(state.blocks.size());
  for (size_t i = 0; i < state.blocks.size(); ++i) {
    const AllocatorBlock& block = state.blocks[i];
    blocks[i] = py::make_tuple(
        leakguard::nameOf(block.device),
        block.address,
        block.size,
        block.requested,
        block.allocated,
        cudaStreams().handle(block.stream),
        poolOf(block.pool));
  }
  return blocks;
}

py::list segmentsOf(const AllocatorState& state) {
  py::list segments(state.segments.size());
  for (size_t i = 0; i < state.segments.size(); ++i) {
    const AllocatorSegment& segment = state.segments[i];
    segments[i] = py::make_tuple(
        leakguard::nameOf(segment.device),
        segment.address,
        segment.size,
        segment.active,
        segment.largestFree,
        cudaStreams().handle(segment.stream),
        poolOf(segment.pool),
        segment.expandable);
  }
  return segments;
}

py::tuple tupleOf(const Block& block) {
  return py::make_tuple(
      block.address,
      block.requested,
      leakguard::nameOf(block.device),
      block.group,
      block.step,
      moduleNames().at(block.module),
      block.state == BlockState::PendingFree);
}

py::object outOfMemory() {
  const auto record = latestOutOfMemory();
  if (!record) {
    return py::none();
  }
  py::list live(record->live.blocks.size());
  for (size_t i = 0; i < record->live.blocks.size(); ++i) {
    live[i] = tupleOf(record->live.blocks[i]);
  }
  py::dict found;
  found["device"] = record->device;
  found["asked"] = record->asked;
  found["limit"] = record->limit;
  found["device_free"] = record->deviceFree;
  found["step"] = record->live.step;
  found["line"] = record->context.line;
  found["module"] = moduleNames().at(record->context.module);
  found["phase"] = leakguard::nameOf(record->context.phase);
  found["blocks"] = live;
  found["segments"] = segmentsOf(record->allocator);
  return found;
}

// The allocator is read with the GIL released: its locks come after the GIL, and other threads wait for both.
template <class Read>
auto withoutGil(Read read) {
  const py::gil_scoped_release released;
  return read();
}

} // namespace

PYBIND11_MODULE(_cuda, m) {
  m.doc() = "The CUDA caching allocator as leakguard follows it. Internal: leakguard's own modules are the surface.";
  m.def("attach", [] { return tupleOf(withoutGil(&attachCudaAllocator)); });
  m.def("detach", [] { withoutGil(&detachCudaAllocator); });
  m.def("status", [] { return tupleOf(withoutGil(&cudaStatus)); });
  m.def("attach_pinned", [] { return attachPinnedAllocator().why; });
  m.def("detach_pinned", &detachPinnedAllocator);
  m.def("pinned_attached", &pinnedAllocatorAttached);

  m.def("allocator_blocks", [] { return blocksOf(withoutGil([] { return readAllocator(currentCudaAllocator()); })); });
  m.def("allocator_segments", [] {
    return segmentsOf(withoutGil([] { return readAllocator(currentCudaAllocator()); }));
  });
  m.def(
      "counters",
      [](int device) {
        const AllocatorCounters c = withoutGil([&] { return readCounters(currentCudaAllocator(), device); });
        return py::make_tuple(
            c.allocated,
            c.reserved,
            c.active,
            c.inactiveSplit,
            c.requested,
            c.blocks,
            c.activeBlocks,
            c.retries,
            c.outOfMemory);
      },
      py::arg("device"));
  m.def(
      "reconcile",
      [](int device) {
        const Reconciliation r =
            withoutGil([&] { return reconcile(readAllocator(currentCudaAllocator()), cudaDevice(device)); });
        return py::make_tuple(r.missing, r.missingBytes, r.extra, r.extraBytes, r.differing);
      },
      py::arg("device"));
  m.def("known_residents", [] {
    py::list found;
    for (const ResidentBlock& block : withoutGil(&knownResidents)) {
      found.append(py::make_tuple(block.address, leakguard::nameOf(block.resident)));
    }
    return found;
  });
  m.def("out_of_memory", &outOfMemory);
  m.def("out_of_memory_count", &outOfMemoryCount);
}
