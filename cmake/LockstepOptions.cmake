# The options that every target of Lockstep is compiled with, as one interface target lockstep::options.
add_library(lockstep_options INTERFACE)
add_library(lockstep::options ALIAS lockstep_options)
target_compile_features(lockstep_options INTERFACE cxx_std_20)
target_compile_options(lockstep_options INTERFACE
  $<BUILD_INTERFACE:-Wall -Wextra -Wconversion -Wno-sign-conversion -Wshadow -Werror=return-type>)
# GCC 12 warns about overlaps in its own inlined std::string code (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(lockstep_options INTERFACE $<BUILD_INTERFACE:-Wno-restrict>)
endif()
if(LOCKSTEP_SANITIZE)
  target_compile_options(lockstep_options INTERFACE
    $<BUILD_INTERFACE:-fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all>)
  target_link_options(lockstep_options INTERFACE $<BUILD_INTERFACE:-fsanitize=${LOCKSTEP_SANITIZE}>)
  target_compile_definitions(lockstep_options INTERFACE $<BUILD_INTERFACE:LOCKSTEP_SANITIZED>)
endif()
# libFuzzer learns from the branches that an input takes, so all code that an input may reach has to count branches.
if(LOCKSTEP_SANITIZE MATCHES address AND CMAKE_CXX_COMPILER_ID MATCHES Clang)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_FLAGS -fsanitize=fuzzer)
  check_cxx_source_compiles("extern \"C\" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }" LOCKSTEP_FUZZ)
  unset(CMAKE_REQUIRED_FLAGS)
  if(LOCKSTEP_FUZZ)
    target_compile_options(lockstep_options INTERFACE $<BUILD_INTERFACE:-fsanitize=fuzzer-no-link>)
  endif()
endif()

# LibTorch and the data core do the arithmetic. In other code -O3 gains nothing, and takes a fifth longer to compile
# than -O2. Command lines and tests run once, so lockstep_optimize() gives them a lower level.
if(CMAKE_CXX_FLAGS_RELEASE STREQUAL "-O3 -DNDEBUG")
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
endif()
# With GCC 13 and later a file of another level than the precompiled header's cannot use that header, which costs more.
function(lockstep_optimize target level)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    return()
  endif()
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O${level}>)
  # Sanitizers double a file's code, so optimizing the tests themselves takes longer than they run.
  if(LOCKSTEP_SANITIZE AND level EQUAL 0)
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()

# A compiler cache makes a rebuild after `git switch`, or in a second checkout, seconds instead of minutes.
find_program(LOCKSTEP_CCACHE ccache)
find_program(LOCKSTEP_BASH bash)
if(LOCKSTEP_CCACHE AND LOCKSTEP_BASH AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  cmake_path(RELATIVE_PATH PROJECT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_BINARY_DIR} OUTPUT_VARIABLE source_from_build)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${LOCKSTEP_BASH} ${PROJECT_SOURCE_DIR}/tools/cached-compile ${PROJECT_SOURCE_DIR} ${source_from_build})
endif()
