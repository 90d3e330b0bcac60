# megatron_add_plugin(KIND NAME SOURCES … [EXACT] [PACKAGES …])
#
# Builds megatron-KIND-NAME.so: hidden visibility, one exported symbol, every symbol resolved at link
# time. KIND is model, parallel, optimizer, dataset, tokenizer, comm or device. EXACT plugins (devices,
# graph-rewriting passes) load only into a host of the very same sdk. PACKAGES are further libraries to
# link; a plugin links the sdk and never the host's own libraries.
#

set(MEGATRON_PLUGIN_CMAKE_DIR "${CMAKE_CURRENT_LIST_DIR}")
set(MEGATRON_PLUGIN_KINDS model parallel optimizer dataset tokenizer comm device)

function(megatron_add_plugin kind name)
  cmake_parse_arguments(PARSE_ARGV 2 ARG "EXACT" "" "SOURCES;PACKAGES")
  list(FIND MEGATRON_PLUGIN_KINDS "${kind}" kind_index)
  if(kind_index EQUAL -1)
    message(FATAL_ERROR "megatron_add_plugin: unknown kind '${kind}'; kinds: ${MEGATRON_PLUGIN_KINDS}")
  endif()
  if(NOT name MATCHES "^[a-z][a-z0-9_]*$")
    message(FATAL_ERROR "megatron_add_plugin: name '${name}' must match [a-z][a-z0-9_]*")
  endif()
  math(EXPR kind_number "${kind_index} + 1")

  set(target megatron-${kind}-${name})
  add_library(${target} MODULE ${ARG_SOURCES})
  set_target_properties(${target} PROPERTIES
    PREFIX ""
    CXX_VISIBILITY_PRESET hidden
    C_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib/megatron/plugins")
  target_compile_definitions(${target} PRIVATE
    MEGATRON_PLUGIN_KIND=${kind_number}u
    MEGATRON_PLUGIN_TIER=$<IF:$<BOOL:${ARG_EXACT}>,MGT_TIER_EXACT,MGT_TIER_STABLE>
    "MEGATRON_PLUGIN_NAME=\"${name}\"")
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
  target_link_libraries(${target} PRIVATE megatron::sdk ${ARG_PACKAGES})
  target_link_options(${target} PRIVATE
    "LINKER:--version-script=${MEGATRON_PLUGIN_CMAKE_DIR}/plugin.map" LINKER:-z,now)
  if(TARGET megatron_options)
    target_link_libraries(${target} PRIVATE megatron_options)
  endif()
  if(NOT MEGATRON_SANITIZE)  # a sanitizer's runtime is resolved from the executable
    target_link_options(${target} PRIVATE LINKER:-z,defs)
  endif()
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${MEGATRON_PLUGIN_CMAKE_DIR}/plugin.map")
  set_property(GLOBAL APPEND PROPERTY MEGATRON_PLUGINS ${target})
  install(TARGETS ${target} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/megatron/plugins")
endfunction()
