# Compiles the profiles into the program, so that the program stays one file. Each TOML file of profiles/ becomes one
# literal of builtin_profiles(). If a profile changes, CMake runs again.
function(lockstep_builtin_profiles target)
  file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/profiles/*.toml)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${files})
  set(entries "")
  foreach(file IN LISTS files)
    file(READ ${file} toml)
    cmake_path(GET file STEM name)
    string(APPEND entries "    {\"${name}\", \"${name}.toml\", R\"toml(${toml})toml\"},\n")
  endforeach()
  set(source ${CMAKE_BINARY_DIR}/generated/builtin_profiles.cc)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT [[
// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/profile/library.h"

namespace lockstep {

std::span<const ProfileText> builtin_profiles() {
  static const ProfileText kProfiles[] = {
@entries@  };
  return kProfiles;
}

}  // namespace lockstep
]])
  target_sources(${target} PRIVATE ${source})
endfunction()

# Compiles the table of variables that `doctor` warns about into the program, as builtin_variables().
function(lockstep_builtin_variables target)
  set(table ${PROJECT_SOURCE_DIR}/profiles/doctor/variables.toml)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${table})
  file(READ ${table} toml)
  set(source ${CMAKE_BINARY_DIR}/generated/builtin_variables.cc)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT [[
// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/variables.h"

namespace lockstep {

std::string_view builtin_variables() { return R"toml(@toml@)toml"; }

}  // namespace lockstep
]])
  target_sources(${target} PRIVATE ${source})
endfunction()
