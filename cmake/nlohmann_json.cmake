# Sets LEAKGUARD_NLOHMANN_INCLUDE to the directory that holds nlohmann/json.hpp, or to a false value.
find_path(LEAKGUARD_NLOHMANN_INCLUDE nlohmann/json.hpp)
if(NOT LEAKGUARD_NLOHMANN_INCLUDE)
  if(NOT Python_EXECUTABLE)
    find_package(Python COMPONENTS Interpreter)
  endif()
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c "import nlohmann_json; print(nlohmann_json.get_include(), end='')"
    OUTPUT_VARIABLE from_python RESULT_VARIABLE failed ERROR_QUIET)
  if(NOT failed)
    find_path(LEAKGUARD_NLOHMANN_INCLUDE nlohmann/json.hpp HINTS ${from_python})
  endif()
endif()
if(NOT LEAKGUARD_NLOHMANN_INCLUDE)
  message(STATUS "leakguard: no nlohmann/json, so no report_json "
    "(apt-get install nlohmann-json3-dev, or pip install nlohmann-json)")
endif()
