# Builds liblockstep_pythonXY.so, the trainer as an extension module, for recipes that name a Python class. The module
# is for the interpreter whose PyTorch LibTorch belongs to. No other part of Lockstep needs Python to be built. The
# module does not link libpython, because the interpreter loads it.
set(LOCKSTEP_PYTHON "" CACHE FILEPATH "Interpreter to build the extension for; by default the one whose PyTorch LibTorch belongs to")
set(LOCKSTEP_PYTHON_MODELS auto CACHE STRING "Build the extension for Python models: auto, on, off. With on it is an error if it cannot be built")
set_property(CACHE LOCKSTEP_PYTHON_MODELS PROPERTY STRINGS auto on off)

function(lockstep_without_python why)
  if(LOCKSTEP_PYTHON_MODELS STREQUAL on)
    message(FATAL_ERROR "LOCKSTEP_PYTHON_MODELS is on, but ${why}.\n  hint: -DLOCKSTEP_PYTHON=/path/to/python names another")
  endif()
  message(STATUS "Building without Python models: ${why}")
endfunction()

# Sets `out` to the interpreter of a torch folder: ".../bin/python3" of ".../lib/python3.11/site-packages/torch".
function(lockstep_python_of torch out)
  set(python "${LOCKSTEP_PYTHON}")
  if(NOT python)
    cmake_path(SET python NORMALIZE "${torch}/../../../../bin/python3")
  endif()
  set(${out} "${python}" PARENT_SCOPE)
endfunction()

function(lockstep_python_extension torch)
  if(LOCKSTEP_PYTHON_MODELS STREQUAL off)
    return()
  endif()
  lockstep_python_of("${torch}" python)
  execute_process(COMMAND ${python} -c "import sys, sysconfig; print('%d%d' % sys.version_info[:2], sysconfig.get_paths()['include'], sep=';')"
    OUTPUT_VARIABLE facts OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
  if(failed)
    lockstep_without_python("there is no Python '${python}'")
    return()
  endif()
  list(GET facts 0 version)
  list(GET facts 1 include)
  if(NOT EXISTS ${include}/Python.h)
    lockstep_without_python("${include}/Python.h, the headers of '${python}', are not there")
    return()
  endif()
  if(NOT EXISTS ${torch}/lib/libtorch_python.so OR NOT EXISTS ${torch}/include/pybind11)
    lockstep_without_python("the LibTorch in ${torch} has no libtorch_python.so or no pybind11")
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/lockstep/python/*.cc)
  add_library(lockstep_python MODULE ${sources})
  target_include_directories(lockstep_python PRIVATE ${PROJECT_SOURCE_DIR})
  target_include_directories(lockstep_python SYSTEM PRIVATE ${include})
  lockstep_layer(python below)
  target_link_libraries(lockstep_python PRIVATE ${below} lockstep_options lockstep::torch ${torch}/lib/libtorch_python.so)
  target_link_options(lockstep_python PRIVATE LINKER:--exclude-libs,ALL)
  # The interpreter has loaded PyTorch's libraries already. With a search path, the module could only find others.
  set_target_properties(lockstep_python PROPERTIES OUTPUT_NAME lockstep_python${version}
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "" INSTALL_RPATH_USE_LINK_PATH OFF
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  lockstep_optimize(lockstep_python 1)
  add_dependencies(lockstep-train lockstep_python)
  message(STATUS "Python models: for Python ${version} with the headers in ${include}")
endfunction()

# Copies lockstep_host beside the programs. In an installation it lies beside the recipes.
function(lockstep_python_host)
  file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/lockstep_host/*.py)
  foreach(file IN LISTS files)
    cmake_path(GET file FILENAME name)
    configure_file(${file} ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/lockstep_host/${name} COPYONLY)
  endforeach()
endfunction()

lockstep_python_extension(${LOCKSTEP_TORCH})
lockstep_python_host()
