# Build options of the project's own code, carried by one interface target: warnings and sanitizers.
option(MEGATRON_WERROR "Treat warnings as errors, with the compilers that the tests run on" OFF)
set(MEGATRON_SANITIZE "" CACHE STRING "Sanitizers, e.g. address,undefined")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_C_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
endif()

add_library(megatron_options INTERFACE)
# A newer compiler's new warning must not end somebody's first build. GCC 12 warns of overlap inside
# its own std::string (GCC bug 105651).
target_compile_options(megatron_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wnon-virtual-dtor>
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>)
if(MEGATRON_WERROR AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 15
   AND NOT (CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13))
  target_compile_options(megatron_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(MEGATRON_SANITIZE)
  target_compile_options(megatron_options INTERFACE
    -fsanitize=${MEGATRON_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(megatron_options INTERFACE -fsanitize=${MEGATRON_SANITIZE})
  # ThreadSanitizer does not follow fences, and GCC warns of each; it may report what one makes safe.
  target_compile_options(megatron_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
endif()
