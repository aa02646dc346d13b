# What every target of this project has in common.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# In every build type: at::RecordFunction has one member more without it, and torch's wheels are built with it.
add_compile_definitions(NDEBUG)
add_compile_options(-Wall -Wextra)
if(LEAKGUARD_WARNINGS_AS_ERRORS)
  add_compile_options(-Werror)
endif()
if(LEAKGUARD_SANITIZE)
  add_compile_options(-fsanitize=${LEAKGUARD_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g -O1)
  add_link_options(-fsanitize=${LEAKGUARD_SANITIZE})
endif()

# The allocator's path crosses a dozen small functions of four files in each event: bound within the library and optimised
# at link time they cost a quarter less.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-fno-semantic-interposition)
endif()
set(LEAKGUARD_LTO OFF)
if(NOT LEAKGUARD_SANITIZE AND CMAKE_BUILD_TYPE MATCHES "^Rel")
  include(CheckIPOSupported)
  check_ipo_supported(RESULT LEAKGUARD_LTO OUTPUT reason LANGUAGES C CXX)
  if(NOT LEAKGUARD_LTO)
    message(STATUS "leakguard: no link-time optimisation here")
  endif()
endif()

find_package(Threads REQUIRED)
set(LEAKGUARD_CSRC ${PROJECT_SOURCE_DIR}/csrc)

# leakguard_sources(OUT FOLDER [WITHOUT REGEX]): the C and C++ sources of a folder.
function(leakguard_sources out folder)
  cmake_parse_arguments(ARG "" "WITHOUT" "" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cpp ${folder}/*.c)
  if(ARG_WITHOUT)
    list(FILTER sources EXCLUDE REGEX "${ARG_WITHOUT}")
  endif()
  set(${out} ${sources} PARENT_SCOPE)
endfunction()

# leakguard_hot(TARGET): holds, or links, code of the allocator's path.
function(leakguard_hot target)
  set_property(TARGET ${target} PROPERTY INTERPROCEDURAL_OPTIMIZATION ${LEAKGUARD_LTO})
endfunction()

# leakguard_module(NAME SOURCES...): a Python extension module that stays mapped until the process ends (the allocators
# may call into it as long as torch lives) and finds the runtime library beside itself.
function(leakguard_module name)
  Python_add_library(${name} MODULE WITH_SOABI ${ARGN})
  target_include_directories(${name} PRIVATE ${LEAKGUARD_CSRC})
  target_link_options(${name} PRIVATE -Wl,-z,nodelete)
  set_target_properties(${name} PROPERTIES
    INSTALL_RPATH "$ORIGIN" BUILD_WITH_INSTALL_RPATH ON
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/modules)
endfunction()
