# coil_embed_text(TARGET FILE HEADER DECLARATION): a text file becomes a part of the target, as what a function that the
# header declares (`const char* coil::f()`) returns. A script (this file, with -P) writes it into the build folder.

if(CMAKE_SCRIPT_MODE_FILE)
  file(READ ${FILE} BODY)
  file(WRITE ${OUTPUT} "// Written by cmake/embed_text.cmake.\n#include \"${HEADER}\"\n\n"
    "${DECLARATION} {\n  return R\"~~~~(${BODY})~~~~\";\n}\n")
  return()
endif()

set(COIL_EMBED_TEXT_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
function(coil_embed_text TARGET FILE HEADER DECLARATION)
  get_filename_component(NAME ${FILE} NAME)
  set(OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${NAME}.cpp)
  add_custom_command(
    OUTPUT ${OUTPUT} DEPENDS ${FILE} ${COIL_EMBED_TEXT_SCRIPT} VERBATIM COMMENT "Embedding ${NAME}"
    COMMAND ${CMAKE_COMMAND} -DFILE=${FILE} -DOUTPUT=${OUTPUT} -DHEADER=${HEADER} "-DDECLARATION=${DECLARATION}"
            -P ${COIL_EMBED_TEXT_SCRIPT})
  target_sources(${TARGET} PRIVATE ${OUTPUT})
  set_source_files_properties(${OUTPUT} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
endfunction()
