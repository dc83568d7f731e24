# Precompiled headers, each for many targets. The headers are read once instead of once a file. With Clang a precompiled
# header also holds the templates that it uses.

# lockstep_precompiled(NAME HEADERS <header>... LINK <target>...)
function(lockstep_precompiled name)
  cmake_parse_arguments(arg "" "" "HEADERS;LINK" ${ARGN})
  add_library(lockstep_${name}_header OBJECT ${PROJECT_SOURCE_DIR}/cmake/precompiled.cc)
  target_link_libraries(lockstep_${name}_header PRIVATE lockstep_options Threads::Threads ${arg_LINK})
  target_precompile_headers(lockstep_${name}_header PRIVATE ${arg_HEADERS})
  # Without a timestamp the header is the same in each build, so ccache finds it.
  target_compile_options(lockstep_${name}_header PRIVATE "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endfunction()

# lockstep_reuse_header(TARGET NAME) makes TARGET use the precompiled header NAME, if there is one.
function(lockstep_reuse_header target name)
  if(TARGET lockstep_${name}_header)
    target_precompile_headers(${target} REUSE_FROM lockstep_${name}_header)
    # The header was compiled with -fPIC. A program's own -fPIE comes earlier, and without this option it would make the
    # header unusable.
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
endfunction()

# Every file must include all that it uses. A build with LOCKSTEP_UNITY=OFF fails for a file that does not.
if(LOCKSTEP_UNITY)
  set(standard <algorithm> <array> <chrono> <filesystem> <fstream> <functional> <map> <memory> <optional> <set> <span>
    <sstream> <string> <string_view> <vector> <nlohmann/json.hpp>)
  lockstep_precompiled(standard HEADERS ${standard} LINK lockstep::json)
  if(BUILD_TESTING)
    lockstep_precompiled(test HEADERS ${standard} <gtest/gtest.h> LINK lockstep::json GTest::gtest)
    lockstep_optimize(lockstep_test_header 0)
  endif()
endif()
