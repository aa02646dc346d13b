// _heap: the heap walk without torch, for the tests of csrc/interpreter alone.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bindings/holders_to_python.h"
#include "interpreter/cpython_layout.h"
#include "interpreter/holder_search.h"

namespace py = pybind11;

namespace {

py::dict walk(
    const std::vector<std::uintptr_t>& addresses,
    int muted_frames,
    int most_owners,
    std::vector<int> groups) {
  leakguard::HolderQuery query;
  for (std::uintptr_t address : addresses) {
    query.addresses.push_back(reinterpret_cast<const void*>(address));
  }
  query.groups = std::move(groups);
  query.muted_frames = muted_frames;
  query.most_owners = most_owners;
  return leakguard::toPython(leakguard::searchHolders(query, nullptr));
}

py::list ownFrames(int at_a_time) {
  std::vector<LgFrameRef> buffer(static_cast<std::size_t>(at_a_time));
  py::list frames;
  void* cursor = nullptr;
  while (true) {
    int count = 0;
    {
      const py::gil_scoped_release without_gil; // as the allocator's hot path finds it
      count = lg_own_frames(&cursor, buffer.data(), at_a_time);
    }
    if (count == 0) {
      return frames;
    }
    for (int i = 0; i < count; i++) {
      const auto& frame = buffer[static_cast<std::size_t>(i)];
      frames.append(py::make_tuple(
          py::reinterpret_borrow<py::object>(static_cast<PyObject*>(frame.code)),
          frame.lasti_bytes,
          reinterpret_cast<std::uintptr_t>(lg_first_slot(&frame))));
    }
  }
}

} // namespace

PYBIND11_MODULE(_heap, module) {
  module.doc() = "The heap walk without torch, for tests";
  module.def(
      "walk",
      &walk,
      py::arg("addresses"),
      py::arg("muted_frames") = 0,
      py::arg("most_owners") = 1,
      py::arg("groups") = std::vector<int>{},
      "Who keeps the objects at these addresses alive");
  module.def(
      "own_frames", &ownFrames, py::arg("at_a_time") = 8, "This thread's frames: (code, lasti in bytes, slot 0)");
}
