#include "owners/graph_at_rest.h"

#include <Python.h>

#include <chrono>
#include <thread>

#include "interpreter/cpython_layout.h"
#include "interpreter/reference_name.h"

namespace leakguard {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLongestWait = std::chrono::milliseconds(50);
constexpr auto kPause = std::chrono::milliseconds(1);

// torch.autograd.graph._engine_run_backward is where backward() and grad() enter the engine.
bool isEngineEntry(PyObject* code) {
  auto* object = reinterpret_cast<PyCodeObject*>(code);
  if (!PyUnicode_Check(object->co_name) ||
      PyUnicode_CompareWithASCIIString(object->co_name, "_engine_run_backward") != 0) {
    return false;
  }
  return fileOf(code).ends_with("torch/autograd/graph.py");
}

bool anotherThreadIsInBackward() {
  struct Look {
    unsigned long own;
    bool found;
  } look{lg_current_thread(), false};
  const LgRootVisitor visitor{
      &look,
      [](void*, PyObject*, LgRootKind, unsigned long) {},
      [](void* context, const LgFrame* frame, unsigned long thread, int depth) {
        auto& at = *static_cast<Look*>(context);
        if (depth == 0 && thread != at.own && isEngineEntry(frame->code)) {
          at.found = true;
        }
      }};
  lg_visit_roots(&visitor);
  return look.found;
}

} // namespace

bool waitForGraphAtRest() {
  const auto deadline = Clock::now() + kLongestWait;
  while (anotherThreadIsInBackward()) {
    if (Clock::now() >= deadline) {
      return false;
    }
    PyThreadState* state = PyEval_SaveThread();
    std::this_thread::sleep_for(kPause);
    PyEval_RestoreThread(state);
  }
  return true;
}

} // namespace leakguard
