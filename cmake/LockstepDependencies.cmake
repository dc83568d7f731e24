# Each dependency as one target, lockstep::NAME: the system's package first, third_party/ (brought by `make dist`) second.
function(lockstep_header_only name header package)
  find_path(LOCKSTEP_${name}_INCLUDE ${header}
    HINTS ${PROJECT_SOURCE_DIR}/third_party/${name}/include ${PROJECT_SOURCE_DIR}/third_party/${name})
  if(NOT LOCKSTEP_${name}_INCLUDE)
    message(FATAL_ERROR "${header} was not found.\n  hint: apt-get install ${package}, or unpack it in third_party/${name}")
  endif()
  add_library(lockstep_${name} INTERFACE)
  add_library(lockstep::${name} ALIAS lockstep_${name})
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_HEADER_ONLY lockstep::${name})
  if(NOT LOCKSTEP_${name}_INCLUDE STREQUAL "/usr/include")
    target_include_directories(lockstep_${name} SYSTEM INTERFACE $<BUILD_INTERFACE:${LOCKSTEP_${name}_INCLUDE}>)
  endif()
endfunction()

lockstep_header_only(cli11 CLI/CLI.hpp libcli11-dev)
lockstep_header_only(tomlplusplus toml++/toml.h libtomlplusplus-dev)
lockstep_header_only(json nlohmann/json.hpp nlohmann-json3-dev)
lockstep_header_only(xxhash xxhash.h libxxhash-dev)

find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
add_library(lockstep::zlib ALIAS ZLIB::ZLIB)

# lockstep_c_library(name package target debian): a library with a find module of CMake's; third_party/NAME is an install prefix.
macro(lockstep_c_library name package target debian)
  find_package(${package} QUIET)
  if(NOT ${package}_FOUND)
    list(APPEND CMAKE_PREFIX_PATH ${PROJECT_SOURCE_DIR}/third_party/${name})
    find_package(${package} QUIET)
  endif()
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "${package} was not found.\n  hint: apt-get install ${debian}, or install it into third_party/${name}")
  endif()
  add_library(lockstep::${name} ALIAS ${target})
endmacro()

lockstep_c_library(jpeg JPEG JPEG::JPEG libjpeg62-turbo-dev)
lockstep_c_library(png PNG PNG::PNG libpng-dev)

# Without HDF5 all else is built; data of that kind is then an error that says so. CMake's own module needs a C compiler.
set(LOCKSTEP_HDF5_PREFIX ${PROJECT_SOURCE_DIR}/third_party/hdf5)
find_path(LOCKSTEP_HDF5_INCLUDE hdf5.h HINTS ENV HDF5_ROOT PATHS ${LOCKSTEP_HDF5_PREFIX}
  PATH_SUFFIXES include include/hdf5/serial hdf5/serial)
find_library(LOCKSTEP_HDF5_LIBRARY NAMES hdf5_serial hdf5 HINTS ENV HDF5_ROOT PATHS ${LOCKSTEP_HDF5_PREFIX}
  PATH_SUFFIXES lib)
if(NOT LOCKSTEP_HDF5_INCLUDE OR NOT LOCKSTEP_HDF5_LIBRARY)
  message(STATUS "HDF5 was not found: building without data.kind = \"hdf5\" (apt-get install libhdf5-dev)")
endif()

if(BUILD_TESTING)
  # Built from source so that sanitizers and the C++ library's ABI are the same as ours.
  find_path(LOCKSTEP_GOOGLETEST_SOURCE googletest/include/gtest/gtest.h
    HINTS ${PROJECT_SOURCE_DIR}/third_party/googletest /usr/src/googletest NO_DEFAULT_PATH)
  if(NOT LOCKSTEP_GOOGLETEST_SOURCE)
    message(FATAL_ERROR "GoogleTest's sources were not found.\n  hint: apt-get install libgtest-dev, or unpack it in third_party/googletest")
  endif()
  set(INSTALL_GTEST OFF)
  set(BUILD_GMOCK OFF)
  add_subdirectory(${LOCKSTEP_GOOGLETEST_SOURCE} ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL SYSTEM)
  if(LOCKSTEP_SANITIZE)
    target_link_libraries(gtest PUBLIC lockstep_options)
  endif()
  include(GoogleTest)
endif()
