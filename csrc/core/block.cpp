#include "core/block.h"

namespace leakguard {

std::string nameOf(DeviceKey device) {
  switch (device) {
    case DeviceKey::Cpu:
      return "cpu";
    case DeviceKey::Pinned:
      return "pinned";
    default:
      return "cuda:" + std::to_string(indexOf(device));
  }
}

const char* nameOf(Phase phase) noexcept {
  switch (phase) {
    case Phase::Forward:
      return "forward";
    case Phase::Backward:
      return "backward";
    case Phase::Optimizer:
      return "optimizer";
    case Phase::Other:
      break;
  }
  return "other";
}

} // namespace leakguard
