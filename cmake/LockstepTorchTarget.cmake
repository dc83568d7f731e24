# Makes the target lockstep::torch from the `torch` folder of a PyTorch installation. Lockstep's own build uses this
# file, and so does the build of a program that uses the installed package. The libraries are linked as plain files,
# because find_package(Torch) of a CUDA build demands a CUDA toolkit even for CPU code.

# Sets `out` to the version of the LibTorch in the folder `torch`, such as 2.11.
function(lockstep_torch_version torch out)
  file(GLOB headers ${torch}/include/torch/headeronly/version.h ${torch}/include/torch/version.h
    ${torch}/include/torch/csrc/api/include/torch/version.h)
  set(lines)
  foreach(header IN LISTS headers)
    file(STRINGS ${header} found REGEX "define TORCH_VERSION_(MAJOR|MINOR) ")
    list(APPEND lines ${found})
  endforeach()
  string(REGEX REPLACE ".*VERSION_MAJOR ([0-9]+).*VERSION_MINOR ([0-9]+).*" "\\1.\\2" version "${lines}")
  set(${out} "${version}" PARENT_SCOPE)
endfunction()

# Sets `out` to the files of the libraries that libtorch_cpu.so needs. LibTorch's own search paths have up to six
# folders. The loader tries each folder with every variant of the processor, which is some 35 file-system calls a folder
# and rank. A program that links these files itself finds them earlier, through its own short path. That includes
# glibc's small libraries.
#
# libstdc++ is one of them, because some compilers link a static copy where nobody names the shared one. A program with
# that copy beside LibTorch's shared one ends with "free(): invalid pointer".
function(lockstep_torch_needs torch out)
  execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${torch}/lib/libtorch_cpu.so OUTPUT_VARIABLE dump ERROR_QUIET)
  string(REGEX MATCH "R(UN)?PATH +([^\n]+)" path "${dump}")
  string(REPLACE "$ORIGIN" "${torch}/lib" folders "${CMAKE_MATCH_2}")
  string(REPLACE ":" ";" folders "${folders}")
  string(REGEX MATCHALL "NEEDED +[^\n]+" names "${dump}")
  list(TRANSFORM names REPLACE "NEEDED +" "")
  list(REMOVE_ITEM names libc10.so)
  set(files)
  foreach(name IN LISTS names)
    unset(file)
    if(name MATCHES "^lib(dl|pthread|rt|stdc[+][+])[.]")
      execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${name}
        OUTPUT_VARIABLE file OUTPUT_STRIP_TRAILING_WHITESPACE)
      # A compiler that was built without shared libraries knows none. Then this finds the system's.
      if(NOT IS_ABSOLUTE "${file}")
        unset(file)
        find_library(file ${name} NO_CACHE)
      endif()
    else()
      find_file(file ${name} PATHS ${folders} NO_DEFAULT_PATH NO_CACHE)
    endif()
    if(IS_ABSOLUTE "${file}")
      cmake_path(NORMAL_PATH file)
      list(APPEND files "${file}")
    endif()
  endforeach()
  set(${out} "${files}" PARENT_SCOPE)
endfunction()

function(lockstep_add_torch torch)
  lockstep_torch_needs(${torch} needs)
  add_library(lockstep::torch INTERFACE IMPORTED GLOBAL)
  target_include_directories(lockstep::torch SYSTEM INTERFACE ${torch}/include ${torch}/include/torch/csrc/api/include)
  target_link_libraries(lockstep::torch INTERFACE ${needs} ${torch}/lib/libtorch_cpu.so ${torch}/lib/libc10.so)
  # An RPATH, unlike a RUNPATH, comes before LD_LIBRARY_PATH. So a cluster's modules cannot replace the LibTorch of this
  # build.
  target_link_options(lockstep::torch INTERFACE
    LINKER:--no-as-needed LINKER:--disable-new-dtags LINKER:--allow-shlib-undefined)
endfunction()
