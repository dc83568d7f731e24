// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/setup/trainer_program.h"

#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/cluster/setup/trainer_build.h"

namespace lockstep {

std::string trainer_program(const LockstepProgram& lockstep, const Environment& env) {
  if (const auto given = env.get("LOCKSTEP_TRAINER")) {
    if (::access(given->c_str(), X_OK) == 0) return *given;
    throw Error(ErrorKind::kEnvironment, "LOCKSTEP_TRAINER is '" + *given + "', want the program lockstep-train",
                "unset it, or build it again: lockstep setup");
  }
  // If LOCKSTEP_PYTHON names an interpreter, the build for that interpreter's PyTorch comes first, if `lockstep setup`
  // has made one.
  if (env.get("LOCKSTEP_PYTHON")) {
    if (const auto built = build_of_named_python(env, lockstep.version)) return built->program;
  }
  const auto beside = lockstep.path.parent_path() / "lockstep-train";
  if (::access(beside.c_str(), X_OK) == 0) return beside;
  if (const auto built = chosen_build(env, lockstep.version)) return built->program;
  throw Error(ErrorKind::kEnvironment, "'" + beside.string() + "' is missing: the training half is not built here",
              "build it for your Python's PyTorch: lockstep setup; in the source tree: make build");
}

}  // namespace lockstep
