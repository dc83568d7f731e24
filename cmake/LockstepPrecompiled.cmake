# Precompiled headers, each one for many targets: read once instead of once a file, and with Clang they hold the templates
# that are used, too.

# lockstep_precompiled(NAME HEADERS <header>... LINK <target>...)
function(lockstep_precompiled name)
  cmake_parse_arguments(arg "" "" "HEADERS;LINK" ${ARGN})
  add_library(lockstep_${name}_header OBJECT ${PROJECT_SOURCE_DIR}/cmake/precompiled.cc)
  target_link_libraries(lockstep_${name}_header PRIVATE lockstep_options Threads::Threads ${arg_LINK})
  target_precompile_headers(lockstep_${name}_header PRIVATE ${arg_HEADERS})
  # Without the time in it, ccache knows the header again.
  target_compile_options(lockstep_${name}_header PRIVATE "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endfunction()

# lockstep_reuse_header(TARGET NAME): where that header was made.
function(lockstep_reuse_header target name)
  if(TARGET lockstep_${name}_header)
    target_precompile_headers(${target} REUSE_FROM lockstep_${name}_header)
    # The header was compiled with -fPIC; a program's own -fPIE, which comes before this, would make it unusable.
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
endfunction()

# A file that compiles without this header names all that it uses: OFF shows which do not.
if(LOCKSTEP_UNITY)
  set(standard <algorithm> <array> <chrono> <filesystem> <fstream> <functional> <map> <memory> <optional> <set> <span>
    <sstream> <string> <string_view> <vector> <nlohmann/json.hpp>)
  lockstep_precompiled(standard HEADERS ${standard} LINK lockstep::json)
  if(BUILD_TESTING)
    lockstep_precompiled(test HEADERS ${standard} <gtest/gtest.h> LINK lockstep::json GTest::gtest)
    lockstep_optimize(lockstep_test_header 0)
  endif()
endif()
