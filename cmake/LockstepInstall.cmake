# Says what `cmake --install` installs: public headers, static libraries, the programs and the libraries that they load,
# the recipes with the digits they train on, and a package. With the package, find_package(lockstep) gives the target
# lockstep::lockstep.
include(CMakePackageConfigHelpers)
get_property(libraries GLOBAL PROPERTY LOCKSTEP_MODULES)
get_property(programs GLOBAL PROPERTY LOCKSTEP_PROGRAMS)
list(TRANSFORM libraries PREPEND lockstep_)
set(LOCKSTEP_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)

add_library(lockstep_all INTERFACE)
add_library(lockstep::lockstep ALIAS lockstep_all)
target_link_libraries(lockstep_all INTERFACE ${libraries})
set_target_properties(lockstep_all PROPERTIES EXPORT_NAME lockstep)
set_target_properties(lockstep_options PROPERTIES EXPORT_NAME options)

install(TARGETS lockstep_all lockstep_options ${libraries} EXPORT lockstepTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
file(STRINGS cmake/public_headers.txt public_headers)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS cmake/public_headers.txt)
foreach(header IN LISTS public_headers)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder})
endforeach()
install(TARGETS ${programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET lockstep_hdf5)
  install(TARGETS lockstep_hdf5 LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET lockstep_python)
  install(TARGETS lockstep_python LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
get_property(gpu GLOBAL PROPERTY LOCKSTEP_GPU_TARGET)
if(gpu)
  install(TARGETS ${gpu} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(EXPORT lockstepTargets NAMESPACE lockstep:: DESTINATION ${LOCKSTEP_PACKAGE_DIR})
install(DIRECTORY recipes datasets python/lockstep_host DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep)

# A static Lockstep needs the C libraries again when a project links it. Those from third_party/ may be nowhere else on the machine.
get_property(prefixes GLOBAL PROPERTY LOCKSTEP_PREFIXES)
set(LOCKSTEP_THIRD_PARTY)
foreach(prefix IN LISTS prefixes)
  cmake_path(GET prefix FILENAME name)
  set(place ${CMAKE_INSTALL_LIBDIR}/lockstep/third_party/${name})
  install(DIRECTORY ${prefix}/include DESTINATION ${place})
  install(DIRECTORY ${prefix}/lib DESTINATION ${place} FILES_MATCHING PATTERN "*.a" PATTERN "*.so*")
  list(APPEND LOCKSTEP_THIRD_PARTY ${place})
endforeach()

configure_package_config_file(cmake/lockstepConfig.cmake.in ${CMAKE_BINARY_DIR}/lockstepConfig.cmake
  INSTALL_DESTINATION ${LOCKSTEP_PACKAGE_DIR} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/lockstepConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/lockstepConfig.cmake ${CMAKE_BINARY_DIR}/lockstepConfigVersion.cmake
  cmake/LockstepTorchTarget.cmake DESTINATION ${LOCKSTEP_PACKAGE_DIR})

# The manual pages are made from the program's own --help.
find_package(Python3 QUIET COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND)
  install(CODE "execute_process(COMMAND \"${Python3_EXECUTABLE}\" \"${PROJECT_SOURCE_DIR}/tools/make_man.py\"
    \"$<TARGET_FILE:lockstep>\" \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_MANDIR}/man1\" COMMAND_ERROR_IS_FATAL ANY)")
endif()
