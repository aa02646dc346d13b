#pragma once

#include <c10/core/TensorImpl.h>

#include <functional>

namespace leakguard {

// Calls use(part) for each of the tensors in which a sparse tensor keeps its indices and values; a part may be null.
using UsePart = std::function<void(c10::TensorImpl*)>;
void eachSparsePart(c10::TensorImpl* tensor, const UsePart& use);

} // namespace leakguard
