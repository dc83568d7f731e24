# Makes each dependency one target, lockstep::NAME. Takes the system's package first, and third_party/ second. `make
# dist` fills third_party/.
option(LOCKSTEP_BUNDLED "Take every dependency from third_party/, whatever the system has" OFF)
set(LOCKSTEP_SYSTEM_PATHS)
if(LOCKSTEP_BUNDLED)
  set(LOCKSTEP_SYSTEM_PATHS NO_DEFAULT_PATH)
endif()

function(lockstep_header_only name header package)
  find_path(LOCKSTEP_${name}_INCLUDE ${header}
    PATHS ${PROJECT_SOURCE_DIR}/third_party/${name}/include ${PROJECT_SOURCE_DIR}/third_party/${name} ${LOCKSTEP_SYSTEM_PATHS})
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

# Builds a library from third_party/NAME/source with the compiler in $CC, and installs it into `prefix`.
function(lockstep_build_third_party name prefix)
  if(EXISTS ${prefix}/built)
    return()
  endif()
  message(STATUS "Building third_party/${name}")
  set(folder ${CMAKE_BINARY_DIR}/third_party/${name}-build)
  # CMake 4 refuses a project that asks for a CMake before 3.5, as libpng 1.6 and libjpeg-turbo 2.1 do.
  set(common -DCMAKE_POLICY_VERSION_MINIMUM=3.5 -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON
    -DCMAKE_INSTALL_PREFIX=${prefix} -DCMAKE_INSTALL_LIBDIR:STRING=lib -DCMAKE_PREFIX_PATH=${CMAKE_BINARY_DIR}/third_party/zlib
    -DENABLE_SHARED=OFF -DWITH_TURBOJPEG=OFF -DPNG_SHARED=OFF -DPNG_TESTS=OFF -DPNG_EXECUTABLES=OFF)
  set(tree ${PROJECT_SOURCE_DIR}/third_party/${name})
  if(NOT EXISTS ${tree}/CMakeLists.txt)
    string(APPEND tree /source)
  endif()
  foreach(step "-S;${tree};-B;${folder};-G;${CMAKE_GENERATOR};${common}"
      "--build;${folder};--target;install")
    execute_process(COMMAND ${CMAKE_COMMAND} ${step} RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
    if(failed)
      message(FATAL_ERROR "third_party/${name} could not be built:\n${said}\n  hint: it needs a C compiler; CC names one")
    endif()
  endforeach()
  # Programs must contain the library. With a shared one, they would name a file of this build folder.
  file(GLOB shared ${prefix}/lib/*.so*)
  if(shared)
    file(REMOVE ${shared})
  endif()
  file(TOUCH ${prefix}/built)
endfunction()

# lockstep_c_library(name package target debian): finds a library by CMake's own find module. third_party/NAME is an install
# prefix of the library, or holds its sources in source/.
macro(lockstep_c_library name package target debian)
  if(NOT LOCKSTEP_BUNDLED)
    find_package(${package} QUIET)
  endif()
  if(NOT ${package}_FOUND)
    set(prefix ${PROJECT_SOURCE_DIR}/third_party/${name})
    if(EXISTS ${prefix}/source)
      set(prefix ${CMAKE_BINARY_DIR}/third_party/${name})
      if("${name}" STREQUAL "jpeg")
        lockstep_say_without_nasm()
      endif()
      lockstep_build_third_party(${name} ${prefix})
    endif()
    list(PREPEND CMAKE_PREFIX_PATH ${prefix})
    find_package(${package} QUIET)
    set_property(GLOBAL APPEND PROPERTY LOCKSTEP_PREFIXES ${prefix})
  endif()
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "${package} was not found.\n  hint: apt-get install ${debian}, or install it into third_party/${name}")
  endif()
  add_library(lockstep::${name} ALIAS ${target})
endmacro()

lockstep_c_library(zlib ZLIB ZLIB::ZLIB zlib1g-dev)
# libjpeg-turbo is also built without NASM, and its own warning is lost in the build's output.
function(lockstep_say_without_nasm)
  find_program(LOCKSTEP_NASM NAMES nasm yasm)
  if(NOT LOCKSTEP_NASM AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    message(STATUS "NASM was not found: JPEGs take 1.8 times as long to decode (apt-get install nasm, then a new build folder)")
  endif()
endfunction()

lockstep_c_library(jpeg JPEG JPEG::JPEG libjpeg62-turbo-dev)
lockstep_c_library(png PNG PNG::PNG libpng-dev)

# HDF5 is optional. Without HDF5, data of that kind is an error that says so. CMake's own find module would need a C
# compiler.
set(LOCKSTEP_HDF5_PREFIX ${PROJECT_SOURCE_DIR}/third_party/hdf5)
find_path(LOCKSTEP_HDF5_INCLUDE hdf5.h HINTS ENV HDF5_ROOT PATHS ${LOCKSTEP_HDF5_PREFIX}
  PATH_SUFFIXES include include/hdf5/serial hdf5/serial ${LOCKSTEP_SYSTEM_PATHS})
find_library(LOCKSTEP_HDF5_LIBRARY NAMES hdf5_serial hdf5 HINTS ENV HDF5_ROOT PATHS ${LOCKSTEP_HDF5_PREFIX}
  PATH_SUFFIXES lib ${LOCKSTEP_SYSTEM_PATHS})
if(NOT LOCKSTEP_HDF5_INCLUDE OR NOT LOCKSTEP_HDF5_LIBRARY)
  message(STATUS "HDF5 was not found: building without data.kind = \"hdf5\" (apt-get install libhdf5-dev)")
endif()

if(BUILD_TESTING)
  # GoogleTest is built from source, so that it has the same sanitizers and the same C++ ABI as Lockstep.
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
