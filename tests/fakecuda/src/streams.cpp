// Streams, and when the work on them is complete.
#include <algorithm>

#include "model.h"

namespace fakecuda {

namespace {

std::vector<Stream*>& streams() { // all but the default ones
  static auto* instance = new std::vector<Stream*>;
  return *instance;
}

// Completes what `timeline` owes up to `position`; model lock held.
void completeLocked(Timeline& timeline, uint64_t position) {
  auto later = std::stable_partition(timeline.waits.begin(), timeline.waits.end(), [&](const Timeline::Wait& wait) {
    return wait.position >= position;
  });
  const std::vector<Timeline::Wait> waits(later, timeline.waits.end());
  timeline.waits.erase(later, timeline.waits.end());
  timeline.has_waits = !timeline.waits.empty();
  for (auto& wait : waits)
    completeLocked(*wait.other, wait.target);
  timeline.completed = std::max(timeline.completed, position);
}

bool isReachedLocked(const Timeline& timeline, uint64_t position) {
  if (timeline.stalled && timeline.completed < position)
    return false;
  return std::all_of(timeline.waits.begin(), timeline.waits.end(), [&](auto& wait) {
    return wait.position >= position || isReachedLocked(*wait.other, wait.target);
  });
}

} // namespace

// ----------------------------------------------------------------- streams

Stream* createStream(int device) {
  activateDevice(device);
  auto* stream = new Stream;
  stream->device = device;
  Lock lock(modelMutex());
  streams().push_back(stream);
  return stream;
}

Stream* defaultStream(int device) {
  static Stream* defaults = [] {
    auto* array = new Stream[kMaxDevices];
    for (int i = 0; i < kMaxDevices; ++i)
      array[i].device = i;
    return array;
  }();
  return &defaults[device];
}

Stream& resolveStream(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread)
    return *defaultStream(current_device);
  return *reinterpret_cast<Stream*>(handle);
}

bool isReached(const std::shared_ptr<Timeline>& timeline, uint64_t position) {
  if (!timeline->stalled.load(std::memory_order_acquire) && !timeline->has_waits.load(std::memory_order_acquire))
    return true;
  Lock lock(modelMutex());
  return isReachedLocked(*timeline, position);
}

void complete(const std::shared_ptr<Timeline>& timeline, uint64_t position) {
  if (!timeline->stalled && !timeline->has_waits)
    return;
  Lock lock(modelMutex());
  completeLocked(*timeline, position);
}

namespace {

void setStalled(Timeline& timeline, bool stalled) {
  Lock lock(modelMutex());
  if (stalled && !timeline.stalled)
    timeline.completed = timeline.submitted;
  if (!stalled)
    completeLocked(timeline, timeline.submitted);
  timeline.stalled = stalled;
}

} // namespace

void completeDevice(int device) {
  std::vector<std::shared_ptr<Timeline>> timelines{defaultStream(device)->timeline};
  {
    Lock lock(modelMutex());
    for (Stream* stream : streams())
      if (stream->device == device)
        timelines.push_back(stream->timeline);
  }
  for (auto& timeline : timelines)
    complete(timeline, timeline->submitted);
}

void addWait(Stream& stream, const Event& event) {
  if (!event.timeline || event.timeline == stream.timeline)
    return;
  if (isReached(event.timeline, event.position))
    return;
  Lock lock(modelMutex());
  auto& timeline = *stream.timeline;
  timeline.waits.push_back({timeline.submitted, event.timeline, event.position});
  timeline.has_waits = true;
}

void submitKernel(Stream& stream) {
  count(Count::Launch);
  if (Capture* capture = stream.capture.load(std::memory_order_acquire))
    appendNode(stream, *capture, nullptr);
  else
    stream.timeline->submitted.fetch_add(1, std::memory_order_release);
}

} // namespace fakecuda

// ----------------------------------------------------- control: stream part

using namespace fakecuda;

extern "C" {

void fakecuda_stall(void* handle) {
  setStalled(*resolveStream(static_cast<cudaStream_t>(handle)).timeline, true);
}

void fakecuda_drain(void* handle) {
  const auto& timeline = resolveStream(static_cast<cudaStream_t>(handle)).timeline;
  complete(timeline, timeline->submitted);
}

void fakecuda_resume(void* handle) {
  setStalled(*resolveStream(static_cast<cudaStream_t>(handle)).timeline, false);
}

} // extern "C"
