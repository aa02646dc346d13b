# Where torch is, asked of Python. Never find_package(Torch): for a CUDA build it wants nvcc and the whole toolkit, and
# there is no kernel to compile here.
execute_process(
  COMMAND ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/cmake/find_torch.py
  OUTPUT_VARIABLE facts ERROR_VARIABLE reason RESULT_VARIABLE failed)
if(failed)
  string(REPLACE "\n" "\n  " reason "${reason}") # indented lines are printed as they are
  message(FATAL_ERROR "\n  ${reason}")
endif()
file(WRITE ${PROJECT_BINARY_DIR}/torch_facts.cmake "${facts}")
include(${PROJECT_BINARY_DIR}/torch_facts.cmake)
set(LEAKGUARD_TORCH_INCLUDE ${LEAKGUARD_TORCH_DIR}/include)
message(STATUS "leakguard: torch ${LEAKGUARD_TORCH_VERSION} in ${LEAKGUARD_TORCH_DIR}")

# Reconfigure when another torch is installed in the place of this one.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  ${LEAKGUARD_TORCH_DIR}/version.py cmake/find_torch.py python/leakguard/_version.py)

list(GET LEAKGUARD_TORCH_RANGE 0 oldest)
list(GET LEAKGUARD_TORCH_RANGE 1 newest)
add_library(leakguard_torch_headers INTERFACE)
target_include_directories(leakguard_torch_headers SYSTEM INTERFACE
  ${LEAKGUARD_TORCH_INCLUDE} ${LEAKGUARD_TORCH_INCLUDE}/torch/csrc/api/include)
target_compile_definitions(leakguard_torch_headers INTERFACE
  LEAKGUARD_OLDEST_TORCH=${oldest} LEAKGUARD_NEWEST_TORCH=${newest})

# By full path and without rpath: `import torch` has loaded these before ours, and the loader then goes by their names.
function(leakguard_import_torch_library name)
  add_library(leakguard_${name} SHARED IMPORTED)
  set_target_properties(leakguard_${name} PROPERTIES IMPORTED_LOCATION ${LEAKGUARD_TORCH_DIR}/lib/lib${name}.so)
endfunction()
leakguard_import_torch_library(c10)
leakguard_import_torch_library(torch_cpu)
leakguard_import_torch_library(torch_python)

set(LEAKGUARD_CUDA_ROOM OFF)
if(LEAKGUARD_CUDA STREQUAL "ON" OR (LEAKGUARD_CUDA STREQUAL "AUTO" AND LEAKGUARD_TORCH_CUDA))
  if(NOT LEAKGUARD_CUDA_INCLUDE)
    message(FATAL_ERROR "\n"
      "  torch ${LEAKGUARD_TORCH_VERSION} is a CUDA build, and no CUDA headers of its major version were found\n"
      "  (CUDA_HOME, nvcc on the PATH, /usr/local/cuda, NVIDIA's wheels). Either install them:\n\n"
      "    ${LEAKGUARD_CUDA_HEADER_COMMAND}\n\n"
      "  or build without the CUDA room:\n\n"
      "    python -m pip install --no-build-isolation -C cmake.define.LEAKGUARD_CUDA=OFF .\n")
  endif()
  set(LEAKGUARD_CUDA_ROOM ON)
  message(STATUS "leakguard: CUDA headers in ${LEAKGUARD_CUDA_INCLUDE}")
  add_library(leakguard_cuda_headers INTERFACE)
  target_include_directories(leakguard_cuda_headers SYSTEM INTERFACE ${LEAKGUARD_CUDA_INCLUDE})
  if(EXISTS ${LEAKGUARD_TORCH_DIR}/lib/libc10_cuda.so)
    leakguard_import_torch_library(c10_cuda)
  else()
    # CPU wheels carry c10/cuda but for one generated file; without it the room compiles, and no module is linked.
    target_compile_definitions(leakguard_cuda_headers INTERFACE C10_USING_CUSTOM_GENERATED_MACROS)
  endif()
endif()
