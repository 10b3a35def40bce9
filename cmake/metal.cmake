# Metal's machine over Apple's framework (src/runtime/metal/machine.h), a library of its own that the runtime opens when
# a program needs it. Elsewhere tests have one on the host (test/fake_metal).
if(APPLE)
  enable_language(OBJCXX)
  add_library(coil_metal SHARED ${CMAKE_CURRENT_SOURCE_DIR}/runtime/metal/apple.mm)
  target_compile_options(coil_metal PRIVATE -fobjc-arc)
  target_link_libraries(coil_metal PRIVATE "-framework Foundation" "-framework Metal")
  set_target_properties(coil_metal PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  install(TARGETS coil_metal)
endif()
