# lockstep::torch: the LibTorch that LOCKSTEP_TORCH names (the `torch` folder of a PyTorch installation), linked as plain
# libraries. find_package(Torch) of a CUDA build demands a CUDA toolkit even for CPU code, so it is not used.
if(NOT LOCKSTEP_TORCH)
  execute_process(COMMAND ${PROJECT_SOURCE_DIR}/tools/find-torch OUTPUT_VARIABLE LOCKSTEP_TORCH
    OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "no LibTorch was found.\n  hint: run `make setup`, or name one: -DLOCKSTEP_TORCH=/path/to/site-packages/torch")
  endif()
  set(LOCKSTEP_TORCH "${LOCKSTEP_TORCH}" CACHE PATH "The torch folder of a PyTorch installation")
endif()
file(STRINGS ${LOCKSTEP_TORCH}/include/torch/headeronly/version.h version_lines REGEX "define TORCH_VERSION(_MAJOR|_MINOR) ")
if(NOT version_lines)
  file(STRINGS ${LOCKSTEP_TORCH}/include/torch/version.h version_lines REGEX "define TORCH_VERSION(_MAJOR|_MINOR) ")
endif()
string(REGEX REPLACE ".*TORCH_VERSION_MAJOR ([0-9]+).*TORCH_VERSION_MINOR ([0-9]+).*" "\\1.\\2" LOCKSTEP_TORCH_VERSION "${version_lines}")
message(STATUS "LibTorch ${LOCKSTEP_TORCH_VERSION}: ${LOCKSTEP_TORCH}")
if(LOCKSTEP_TORCH_VERSION VERSION_LESS 2.7)
  message(FATAL_ERROR "LibTorch is ${LOCKSTEP_TORCH_VERSION}, want 2.7 or newer (older wheels have the old C++ ABI).\n  hint: name another with -DLOCKSTEP_TORCH=")
endif()

add_library(lockstep_torch INTERFACE)
add_library(lockstep::torch ALIAS lockstep_torch)
target_include_directories(lockstep_torch SYSTEM INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/third_party/gloo_headers>
  $<BUILD_INTERFACE:${LOCKSTEP_TORCH}/include>
  $<BUILD_INTERFACE:${LOCKSTEP_TORCH}/include/torch/csrc/api/include>)
# 211 for 2.11: for the few places where LibTorch's versions differ and no test of a signature can tell.
string(REPLACE "." ";" version_parts ${LOCKSTEP_TORCH_VERSION})
list(GET version_parts 0 version_major)
list(GET version_parts 1 version_minor)
math(EXPR version_number "${version_major} * 100 + ${version_minor}")
target_compile_definitions(lockstep_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO LOCKSTEP_TORCH_VERSION=${version_number})
target_link_libraries(lockstep_torch INTERFACE
  $<BUILD_INTERFACE:${LOCKSTEP_TORCH}/lib/libtorch_cpu.so> $<BUILD_INTERFACE:${LOCKSTEP_TORCH}/lib/libc10.so>)
# Libraries that libtorch_cpu.so names but that lie in folders of their own are found through its own search path.
target_link_options(lockstep_torch INTERFACE $<BUILD_INTERFACE:-Wl,--allow-shlib-undefined>)

add_library(lockstep_torch_header OBJECT ${PROJECT_SOURCE_DIR}/cmake/torch_header.cc)
target_link_libraries(lockstep_torch_header PRIVATE lockstep_options lockstep::torch Threads::Threads)
target_precompile_headers(lockstep_torch_header PRIVATE <torch/torch.h>)
