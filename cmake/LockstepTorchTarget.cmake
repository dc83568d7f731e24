# lockstep::torch from the `torch` folder of a PyTorch installation, in Lockstep's own build and in that of a program
# that uses the installed package. find_package(Torch) of a CUDA build demands a CUDA toolkit even for CPU code, so the
# libraries are linked as plain files.

# "2.11" for the LibTorch in that folder.
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

# What libtorch_cpu.so and its like need, as files. Their own search paths have up to six folders, each of which the
# loader tries with every variant of the processor, some 35 calls a folder and rank. A program that links these files
# itself, glibc's small ones included, finds them through its own short path before they are asked for.
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
    if(name MATCHES "^lib(dl|pthread|rt)[.]")
      execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${name}
        OUTPUT_VARIABLE file OUTPUT_STRIP_TRAILING_WHITESPACE)
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
  # The old kind of search path comes before LD_LIBRARY_PATH: a cluster's modules do not swap the LibTorch built for.
  target_link_options(lockstep::torch INTERFACE
    LINKER:--no-as-needed LINKER:--disable-new-dtags LINKER:--allow-shlib-undefined)
endfunction()
