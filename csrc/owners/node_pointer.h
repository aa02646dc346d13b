#pragma once

#include <torch/csrc/autograd/function.h>

#include <memory>

#include "torch/torch_version.h"

namespace leakguard {

#if LEAKGUARD_TORCH_HAS_INTRUSIVE_NODES
using NodePointer = c10::intrusive_ptr<torch::autograd::Node>;
#else
using NodePointer = std::shared_ptr<torch::autograd::Node>;
#endif

} // namespace leakguard
