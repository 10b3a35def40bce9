# libcoil_aoti.so: what `--emit=aoti` puts into every package for torch. Its interface is the C functions that torch's
# loader calls (src/runtime/aoti), and the runtime is inside; torch itself is found in the process that loads it.
file(GLOB SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/runtime/aoti/*.cpp)
set(EXPORTS ${CMAKE_CURRENT_SOURCE_DIR}/runtime/aoti/exports.map)
add_library(coil_aoti MODULE ${SOURCES})
target_link_libraries(coil_aoti PRIVATE coil_support coil_tensor coil_library_ops coil_runtime)
target_link_options(coil_aoti PRIVATE -Wl,--gc-sections "-Wl,--version-script=${EXPORTS}")
set_target_properties(coil_aoti PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib LINK_DEPENDS ${EXPORTS} LINKER_LANGUAGE CXX)
include(GNUInstallDirs)
if(SKBUILD)
  install(TARGETS coil_aoti LIBRARY DESTINATION coil COMPONENT python)
else()
  install(TARGETS coil_aoti LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
