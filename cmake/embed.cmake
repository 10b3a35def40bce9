# coil_embed(TARGET FOLDER): the files of the folder's subfolders become a part of the target, in which device/text.h
# finds them by their path in the folder. A script (this file, with -P) writes them into the build folder as C++; a
# change of a file changes that source alone.
#
# Comments of what is compiled as a part of a kernel (folders cpp, cuda, grid, metal and shared) are left out, but for
# those that device/pieces.h reads (`// @piece …`). No string in such a file holds `//`; test_format.py sees to it.

if(CMAKE_SCRIPT_MODE_FILE)
  set(TEXT "// Written by cmake/embed.cmake from the files in src/device.\n#include \"device/text.h\"\n\n")
  string(APPEND TEXT "namespace coil::device {\n\nconst EmbeddedFile embedded_files[] = {\n")
  foreach(NAME IN LISTS FILES)
    file(READ ${FOLDER}/${NAME} BODY)
    if(NAME MATCHES "^(cpp|cuda|grid|metal|shared)/")
      string(REPLACE "// @" "@@" BODY "${BODY}")
      string(REGEX REPLACE "[ \t]*//[^\n]*" "" BODY "${BODY}")
      string(REPLACE "@@" "// @" BODY "${BODY}")
      string(REGEX REPLACE "\n\n+" "\n" BODY "${BODY}")
    endif()
    string(APPEND TEXT "    {\"${NAME}\", R\"~~~~(${BODY})~~~~\"},\n")
  endforeach()
  string(APPEND TEXT "};\nconst int embedded_file_count = sizeof embedded_files / sizeof embedded_files[0];\n\n")
  file(WRITE ${OUTPUT} "${TEXT}}  // namespace coil::device\n")
  return()
endif()

set(COIL_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
function(coil_embed TARGET FOLDER)
  file(GLOB FILES RELATIVE ${FOLDER} CONFIGURE_DEPENDS ${FOLDER}/*/*)
  list(SORT FILES)
  list(TRANSFORM FILES PREPEND ${FOLDER}/ OUTPUT_VARIABLE PATHS)
  set(OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${TARGET}_files.cpp)
  add_custom_command(
    OUTPUT ${OUTPUT} DEPENDS ${PATHS} ${COIL_EMBED_SCRIPT} VERBATIM COMMENT "Embedding src/device"
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${FOLDER} -DOUTPUT=${OUTPUT} "-DFILES=${FILES}" -P ${COIL_EMBED_SCRIPT})
  target_sources(${TARGET} PRIVATE ${OUTPUT})
  set_source_files_properties(${OUTPUT} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
endfunction()
