#include "owners/sparse_parts.h"

#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>

#include <cstring>
#include <typeinfo>

#include "owners/private_members.h"
#include "owners/torch_objects.h"

namespace leakguard {

namespace priv = torch_private;

// By type name: layout() may be answered by a subclass in Python.
void eachSparsePart(c10::TensorImpl* tensor, const UsePart& use) {
  const char* type = typeid(*tensor).name();
  if (std::strcmp(type, "N2at16SparseTensorImplE") == 0) {
    auto* sparse = static_cast<at::SparseTensorImpl*>(tensor);
    use(implOf(sparse->*member(priv::SparseIndices{})));
    use(implOf(sparse->*member(priv::SparseValues{})));
  } else if (std::strcmp(type, "N2at19SparseCsrTensorImplE") == 0) {
    auto* sparse = static_cast<at::SparseCsrTensorImpl*>(tensor);
    use(implOf(sparse->*member(priv::CompressedRows{})));
    use(implOf(sparse->*member(priv::CompressedColumns{})));
    use(implOf(sparse->*member(priv::CompressedValues{})));
  }
}

} // namespace leakguard
