# Finds the LibTorch that the training half is built against. LOCKSTEP_TORCH is the `torch` folder of a PyTorch
# installation.
include(LockstepTorchTarget)
if(NOT LOCKSTEP_TORCH)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env "CMAKE_PREFIX_PATH=${CMAKE_PREFIX_PATH};$ENV{CMAKE_PREFIX_PATH}"
    ${PROJECT_SOURCE_DIR}/tools/find-torch
    OUTPUT_VARIABLE LOCKSTEP_TORCH OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "no LibTorch was found.\n  hint: run `make setup`, or name one: -DLOCKSTEP_TORCH=/path/to/site-packages/torch")
  endif()
  set(LOCKSTEP_TORCH "${LOCKSTEP_TORCH}" CACHE PATH "The torch folder of a PyTorch installation")
endif()
lockstep_torch_version("${LOCKSTEP_TORCH}" LOCKSTEP_TORCH_VERSION)
message(STATUS "LibTorch ${LOCKSTEP_TORCH_VERSION}: ${LOCKSTEP_TORCH}")
if(LOCKSTEP_TORCH_VERSION VERSION_LESS 2.7)
  message(FATAL_ERROR "LibTorch is ${LOCKSTEP_TORCH_VERSION}, want 2.7 or newer (older wheels have the old C++ ABI).\n  hint: name another with -DLOCKSTEP_TORCH=")
endif()
lockstep_add_torch("${LOCKSTEP_TORCH}")
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
# CMake pads the search path of a build with an empty entry, which the install step overwrites. The loader takes an
# empty entry for the current folder. With the install path from the start there is no empty entry.
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)

# For Lockstep's own sources only: Gloo's headers, which wheels lack, and LibTorch's version as a number, such as 211
# for 2.11. A few places need the number, because versions differ in ways that no test of a signature can tell.
string(REPLACE "." ";" version_parts ${LOCKSTEP_TORCH_VERSION})
list(GET version_parts 0 version_major)
list(GET version_parts 1 version_minor)
math(EXPR version_number "${version_major} * 100 + ${version_minor}")
target_include_directories(lockstep::torch SYSTEM INTERFACE ${PROJECT_SOURCE_DIR}/third_party/gloo_headers)
target_compile_definitions(lockstep::torch INTERFACE
  USE_DISTRIBUTED USE_C10D_GLOO LOCKSTEP_TORCH_VERSION=${version_number})

# Precompiling torch.h takes 30 s once and saves 8 s a file.
lockstep_precompiled(torch HEADERS <torch/torch.h> LINK lockstep::torch)
