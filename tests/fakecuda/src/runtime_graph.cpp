// libcudart: capture and graphs.
#include <algorithm>

#include "runtime.h"

using namespace fakecuda;

namespace {

Graph* toGraph(cudaGraph_t handle) {
  return reinterpret_cast<Graph*>(handle);
}

} // namespace

extern "C" {

// ----------------------------------------------------------------- capture

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, thread_capture_mode);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  Stream& stream = resolveStream(handle);
  return report(beginCapture(stream, mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  Stream& stream = resolveStream(handle);
  return report(endCapture(stream, reinterpret_cast<Graph**>(graph)));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  Stream& stream = resolveStream(handle);
  *status = stream.capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(
    cudaStream_t handle,
    cudaStreamCaptureStatus* status,
    unsigned long long* id,
    cudaGraph_t* graph,
    const cudaGraphNode_t** dependencies,
    const cudaGraphEdgeData** edges,
    size_t* amount) {
  Stream& stream = resolveStream(handle);
  Lock lock(modelMutex());
  const Capture* capture = stream.capture;
  *status = !capture         ? cudaStreamCaptureStatusNone
      : capture->invalidated ? cudaStreamCaptureStatusInvalidated
                             : cudaStreamCaptureStatusActive;
  if (edges)
    *edges = nullptr;
  if (!capture)
    return cudaSuccess;
  if (id)
    *id = capture->id;
  if (graph)
    *graph = reinterpret_cast<cudaGraph_t>(capture->graph);
  if (dependencies)
    *dependencies = reinterpret_cast<const cudaGraphNode_t*>(stream.capture_tail.data());
  if (amount)
    *amount = stream.capture_tail.size();
  return cudaSuccess;
}

// ------------------------------------------------------------------ graphs

cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* nodes, size_t* amount) {
  const auto& all = toGraph(handle)->nodes;
  if (!nodes) {
    *amount = all.size();
    return cudaSuccess;
  }
  for (size_t i = 0; i < *amount; ++i)
    nodes[i] = i < all.size() ? reinterpret_cast<cudaGraphNode_t>(all[i].get()) : nullptr;
  *amount = std::min(*amount, all.size());
  return cudaSuccess;
}

// An executable graph is a copy that shares the nodes.
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t handle, unsigned long long) {
  *executable = reinterpret_cast<cudaGraphExec_t>(new Graph(*toGraph(handle)));
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  count(Count::GraphLaunch);
  Stream& stream = resolveStream(handle);
  submitKernel(stream);
  if (!stream.capture)
    for (const auto& node : reinterpret_cast<Graph*>(executable)->nodes)
      if (node->effect)
        node->effect();
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete toGraph(graph);
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete reinterpret_cast<Graph*>(executable);
  return cudaSuccess;
}

} // extern "C"
