// libcudart: streams and events.
#include <algorithm>

#include "runtime.h"

using namespace fakecuda;

namespace {

Event* toEvent(cudaEvent_t handle) {
  return reinterpret_cast<Event*>(handle);
}

} // namespace

extern "C" {

// ----------------------------------------------------------------- streams

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* handle, unsigned, int) {
  *handle = reinterpret_cast<cudaStream_t>(createStream(current_device));
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  Stream& stream = resolveStream(handle);
  if (stream.capture)
    return report(cudaErrorStreamCaptureUnsupported);
  REFUSE_WHILE_CAPTURING();
  return isReached(stream.timeline, stream.timeline->submitted) ? cudaSuccess : report(cudaErrorNotReady);
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  count(Count::StreamSync);
  Stream& stream = resolveStream(handle);
  if (stream.capture)
    return report(cudaErrorStreamCaptureUnsupported);
  REFUSE_WHILE_CAPTURING();
  complete(stream.timeline, stream.timeline->submitted);
  return cudaSuccess;
}

// ------------------------------------------------------------------ events

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned flags) {
  activateDevice(current_device);
  auto* event = new Event;
  event->flags = flags;
  *handle = reinterpret_cast<cudaEvent_t>(event);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  if (!handle)
    return report(cudaErrorInvalidResourceHandle);
  delete toEvent(handle);
  return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t stream_handle, unsigned flags) {
  count(Count::EventRecord);
  Stream& stream = resolveStream(stream_handle);
  Event& event = *toEvent(handle);
  if (Capture* capture = stream.capture) {
    if (flags & cudaEventRecordExternal)
      appendNode(stream, *capture, nullptr);
    Lock lock(modelMutex());
    event.capture_id = capture->id;
    event.capture_tail = stream.capture_tail;
    event.timeline = nullptr;
    return cudaSuccess;
  }
  event.capture_id = 0;
  event.capture_tail.clear();
  event.timeline = stream.timeline;
  event.position = stream.timeline->submitted.fetch_add(1) + 1;
  if (!(event.flags & cudaEventDisableTiming))
    event.time = std::chrono::steady_clock::now();
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  count(Count::EventQuery);
  Event& event = *toEvent(handle);
  if (event.capture_id)
    return report(cudaErrorCapturedEvent);
  REFUSE_WHILE_CAPTURING();
  if (!event.timeline || isReached(event.timeline, event.position))
    return cudaSuccess;
  return report(cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  count(Count::EventSync);
  Event& event = *toEvent(handle);
  if (event.capture_id)
    return report(cudaErrorCapturedEvent);
  REFUSE_WHILE_CAPTURING();
  if (event.timeline)
    complete(event.timeline, event.position);
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t stop) {
  const Event &a = *toEvent(start), &b = *toEvent(stop);
  if (!a.timeline || !b.timeline || ((a.flags | b.flags) & cudaEventDisableTiming))
    return report(cudaErrorInvalidResourceHandle);
  if (!isReached(a.timeline, a.position) || !isReached(b.timeline, b.position))
    return report(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(b.time - a.time).count();
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned) {
  Stream& stream = resolveStream(handle);
  const Event& event = *toEvent(event_handle);
  if (event.capture_id) {
    Lock lock(modelMutex());
    Capture* capture = findCapture(event.capture_id);
    if (!capture)
      return report(cudaErrorCapturedEvent);
    if (stream.capture && stream.capture != capture)
      return report(cudaErrorStreamCaptureUnmatched);
    joinCapture(stream, *capture);
    for (GraphNode* node : event.capture_tail)
      if (std::find(stream.capture_tail.begin(), stream.capture_tail.end(), node) == stream.capture_tail.end())
        stream.capture_tail.push_back(node);
    return cudaSuccess;
  }
  if (!stream.capture)
    addWait(stream, event);
  return cudaSuccess;
}

} // extern "C"
