# What goes into the wheel besides the Python files, and _build_facts.py: what the native modules were built for, so that
# _native.py can compare before it opens one of them.
list(GET LEAKGUARD_TORCH_MINOR 0 major)
list(GET LEAKGUARD_TORCH_MINOR 1 minor)
set(torch_cuda "None")
if(LEAKGUARD_TORCH_CUDA)
  set(torch_cuda "\"${LEAKGUARD_TORCH_CUDA}\"")
endif()
set(has_cuda_module "False")
if(TARGET _cuda)
  set(has_cuda_module "True")
endif()
configure_file(cmake/_build_facts.py.in ${PROJECT_BINARY_DIR}/modules/_build_facts.py @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/modules/_build_facts.py DESTINATION leakguard)
foreach(part leakguard_runtime _core _cuda)
  if(TARGET ${part})
    install(TARGETS ${part} LIBRARY DESTINATION leakguard)
  endif()
endforeach()

# For C++ programs: the header, and a CMake package that finds both. `leakguard.cmake_prefix_path` names the folder.
if(TARGET leakguard_program)
  configure_file(cmake/leakguardConfig.cmake.in
    ${PROJECT_BINARY_DIR}/modules/share/cmake/leakguard/leakguardConfig.cmake @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/modules/share/cmake/leakguard/leakguardConfig.cmake
    DESTINATION leakguard/share/cmake/leakguard)
  install(FILES csrc/program/leakguard.h DESTINATION leakguard/include/leakguard)
endif()
