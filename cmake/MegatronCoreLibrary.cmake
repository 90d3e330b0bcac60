# megatron_core_library(NAME SOURCES … DEPENDS … PACKAGES …)
#
# One static library a folder of core/. DEPENDS names other folders of core/ and must point down the
# list in core/CMakeLists.txt; PACKAGES are third-party targets that only this folder may include.
function(megatron_core_library name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "SOURCES;DEPENDS;PACKAGES")
  add_library(megatron_${name} STATIC ${ARG_SOURCES})
  target_include_directories(megatron_${name} PUBLIC "${PROJECT_SOURCE_DIR}/core")
  target_link_libraries(megatron_${name} PUBLIC megatron::sdk PRIVATE megatron_options ${ARG_PACKAGES})
  foreach(dependency IN LISTS ARG_DEPENDS)
    target_link_libraries(megatron_${name} PUBLIC megatron_${dependency})
  endforeach()
endfunction()
