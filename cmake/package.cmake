# The libraries that users link, and their installation: libcoil.so (compiler and runtime), libcoil_runtime.so (runtime
# alone), headers, CMake and pkg-config files.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# coil_shared_library(TARGET FILE LAYERS...): one shared library over the objects of these layers; nothing of the
# libraries it uses shows in its interface.
function(coil_shared_library TARGET FILE)
  add_library(${TARGET} SHARED)
  target_link_libraries(${TARGET} PRIVATE ${ARGN})
  target_include_directories(${TARGET} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${TARGET} INTERFACE cxx_std_20)
  set_target_properties(${TARGET} PROPERTIES
    OUTPUT_NAME ${FILE} VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LINKER_LANGUAGE CXX)
  install(TARGETS ${TARGET} EXPORT coil-targets LIBRARY)
endfunction()

coil_shared_library(coil_runtime_shared coil_runtime coil_support coil_tensor coil_library_ops coil_runtime)
target_link_options(coil_runtime_shared PRIVATE -Wl,--gc-sections -Wl,--no-undefined
  "-Wl,--version-script=${PROJECT_SOURCE_DIR}/src/runtime/c_api/exports.map")
if(NOT TARGET coil_compiler)
  return()
endif()
get_property(LAYERS GLOBAL PROPERTY COIL_LAYERS)
coil_shared_library(coil_shared coil ${LAYERS})
set_target_properties(coil_shared PROPERTIES EXPORT_NAME coil)
set_target_properties(coil_runtime_shared PROPERTIES EXPORT_NAME runtime)

# What libraries from outside are built with (docs/extending.md): headers alone. Their symbols are those of the program
# that loads them.
add_library(coil_extension INTERFACE)
target_include_directories(coil_extension INTERFACE
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/coil/extension>)
target_compile_features(coil_extension INTERFACE cxx_std_20)
set_target_properties(coil_extension PROPERTIES EXPORT_NAME extension)
install(TARGETS coil_extension EXPORT coil-targets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/coil/extension
        FILES_MATCHING PATTERN "*.h" PATTERN "device/*/*" EXCLUDE)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/coil TYPE INCLUDE)
install(EXPORT coil-targets NAMESPACE coil:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/coil)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/coil-config.cmake.in ${PROJECT_BINARY_DIR}/coil-config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/coil)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/coil-config-version.cmake COMPATIBILITY SameMinorVersion)
file(RELATIVE_PATH COIL_PREFIX_FROM_PKGCONFIG /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/coil.pc.in ${PROJECT_BINARY_DIR}/coil.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/coil-config.cmake ${PROJECT_BINARY_DIR}/coil-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/coil)
install(FILES ${PROJECT_BINARY_DIR}/coil.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

add_executable(digits_demo ${PROJECT_SOURCE_DIR}/examples/digits/demo.cpp)
target_link_libraries(digits_demo PRIVATE coil_shared)
