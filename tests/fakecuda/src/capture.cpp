// Stream capture, and the user objects graphs own.
#include <algorithm>

#include "model.h"

namespace fakecuda {

namespace {

struct Registry {
  std::vector<Capture*> open;
  uint64_t next_id = 1;
};

Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

} // namespace

thread_local cudaStreamCaptureMode thread_capture_mode = cudaStreamCaptureModeGlobal;

Capture* findCapture(uint64_t id) {
  for (Capture* capture : registry().open)
    if (capture->id == id)
      return capture;
  return nullptr;
}

void joinCapture(Stream& stream, Capture& capture) {
  if (stream.capture == &capture)
    return;
  stream.capture = &capture;
  stream.capture_tail.clear();
  capture.members.push_back(&stream);
}

cudaError_t beginCapture(Stream& stream, cudaStreamCaptureMode mode) {
  if (&stream == defaultStream(stream.device))
    return cudaErrorStreamCaptureUnsupported;
  Lock lock(modelMutex());
  if (stream.capture)
    return cudaErrorIllegalState;
  auto* capture = new Capture{registry().next_id++, new Graph, &stream, mode, std::this_thread::get_id(), {}};
  registry().open.push_back(capture);
  joinCapture(stream, *capture);
  return cudaSuccess;
}

cudaError_t endCapture(Stream& stream, Graph** graph) {
  Lock lock(modelMutex());
  Capture* capture = stream.capture;
  *graph = nullptr;
  if (!capture)
    return cudaErrorIllegalState;
  if (capture->origin != &stream)
    return cudaErrorStreamCaptureUnmatched;
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id())
    return cudaErrorStreamCaptureWrongThread;
  for (Stream* member : capture->members) {
    member->capture = nullptr;
    member->capture_tail.clear();
  }
  auto& captures = registry().open;
  captures.erase(std::find(captures.begin(), captures.end(), capture));
  const bool invalidated = capture->invalidated;
  if (invalidated)
    delete capture->graph;
  else
    *graph = capture->graph;
  delete capture;
  return invalidated ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}

bool unsafeCallAllowed() {
  if (thread_capture_mode == cudaStreamCaptureModeRelaxed)
    return true;
  Lock lock(modelMutex());
  for (Capture* capture : registry().open) {
    const bool own = capture->thread == std::this_thread::get_id();
    const bool forbids = (own && capture->mode != cudaStreamCaptureModeRelaxed) ||
        (!own && capture->mode == cudaStreamCaptureModeGlobal && thread_capture_mode == cudaStreamCaptureModeGlobal);
    if (!forbids)
      continue;
    capture->invalidated = true;
    return false;
  }
  return true;
}

void appendNode(Stream& stream, Capture& capture, std::function<void()> effect) {
  Lock lock(modelMutex());
  auto node = std::make_shared<GraphNode>();
  node->dependencies = std::move(stream.capture_tail);
  node->effect = std::move(effect);
  stream.capture_tail = {node.get()};
  capture.graph->nodes.push_back(std::move(node));
}

} // namespace fakecuda
