// _counting: a reference for the exactness of the ledger, below leakguard's wrapper. Import torch first.
#include <c10/core/Allocator.h>
#include <pybind11/pybind11.h>

#include <thread>

#include "counting_allocator.h"

namespace py = pybind11;

PYBIND11_MODULE(_counting, m) {
  m.doc() = "A CPU allocator that counts its live blocks. For the tests alone.";
  m.def("install", &counting::install);
  m.def("live", [] {
    py::dict blocks; // {address: (bytes, birth)}
    for (const auto& [address, known] : counting::live()) {
      blocks[py::int_(address)] = py::make_tuple(known.bytes, known.birth);
    }
    return blocks;
  });
  m.def("births", &counting::births);
  m.def("frees", &counting::frees);
  m.def("linger_on", &counting::lingerOn, py::arg("bytes"), py::arg("milliseconds"));
  m.def("someone_lingers", &counting::someoneLingers);
  m.def("lingered", &counting::lingered);
  m.def(
      "allocate_in_new_thread",
      [](size_t bytes) {
        // A thread that Python has never heard of: it has no frames. Whatever stands in the slot is asked.
        c10::DataPtr block;
        {
          const py::gil_scoped_release unlocked;
          std::thread([&] { block = c10::GetAllocator(c10::kCPU)->allocate(bytes); }).join();
        }
        return py::capsule(
            new c10::DataPtr(std::move(block)), [](void* held) { delete static_cast<c10::DataPtr*>(held); });
      },
      py::arg("bytes"),
      "A block from a thread without interpreter frames; it lives as long as the capsule.");
}
