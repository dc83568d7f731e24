-- SPDX-License-Identifier: Apache-2.0
-- Installed as lockstep/VERSION.lua in a folder of MODULEPATH. LOCKSTEP_PREFIX overrides where it finds the files, else they
-- lie in ../../VERSION/ of this file's folder.
local prefix = os.getenv("LOCKSTEP_PREFIX") or pathJoin(myFileName():match("^(.*)/[^/]+/[^/]+$"), "..", myModuleVersion())

whatis("Name: Lockstep")
whatis("Version: " .. myModuleVersion())
whatis("Description: data-parallel training in C++ on LibTorch, and batch jobs for any program")
help([[
lockstep submit --nodes 4 -- python train.py    a batch job for any program
lockstep submit RECIPE --nodes 4                a batch job for a recipe
lockstep doctor                                 what is wrong with this node or job
man lockstep                                    all commands
]])

prepend_path("PATH", pathJoin(prefix, "bin"))
prepend_path("MANPATH", pathJoin(prefix, "share", "man"))
prepend_path("CMAKE_PREFIX_PATH", prefix)
-- Profiles of the site's own, laid over those built in.
if isDir(pathJoin(prefix, "share", "lockstep", "profiles")) then
  prepend_path("LOCKSTEP_PROFILE_PATH", pathJoin(prefix, "share", "lockstep", "profiles"))
end
