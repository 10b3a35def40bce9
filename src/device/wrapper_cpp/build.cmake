# What is written beside a program written as C++, for CMake. $name, $file: its own.

# @piece build
# Builds $file against an installed Coil: include() this file where C++ is enabled.
find_package(coil REQUIRED)
# A program: coil_$name IN.safetensors OUT.safetensors
add_executable(coil_$name "${CMAKE_CURRENT_LIST_DIR}/$file")
target_compile_definitions(coil_$name PRIVATE COIL_MAIN)
# A library with the C entry that coil/runtime.h declares
add_library(coil_$name_library SHARED EXCLUDE_FROM_ALL "${CMAKE_CURRENT_LIST_DIR}/$file")
foreach(target coil_$name coil_$name_library)
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_link_libraries(${target} PRIVATE coil::runtime ${CMAKE_DL_LIBS})
endforeach()
