// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/setup/trainer_program.h"

#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "lockstep/cluster/setup/trainer_build.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::message_of;

class TrainerProgram : public ::testing::Test {
 protected:
  std::string make_program(const fs::path& path) {
    make_folder(path.parent_path());
    write_whole(path, "#!/bin/sh\n", false);
    fs::permissions(path, fs::perms::owner_all);
    return path.string();
  }

  testing::TemporaryFolder folder_;
  LockstepProgram lockstep_{.path = folder_.path() / "bin" / "lockstep", .version = "0.1.0"};
  Environment env_{{"LOCKSTEP_CACHE", (folder_.path() / "cache").string()}};
};

TEST_F(TrainerProgram, IsTheOneThatTheVariableNames) {
  make_program(folder_.path() / "bin" / "lockstep-train");
  const auto named = make_program(folder_.path() / "mine");
  EXPECT_EQ(trainer_program(lockstep_, Environment{{"LOCKSTEP_TRAINER", named}}), named);
  EXPECT_EQ(message_of(ErrorKind::kEnvironment,
                       [&] {
                         trainer_program(lockstep_, Environment{{"LOCKSTEP_TRAINER", "/no/such"}});
                       }),
            "LOCKSTEP_TRAINER is '/no/such', want the program lockstep-train\n"
            "  hint: unset it, or build it again: lockstep setup");
}

TEST_F(TrainerProgram, LiesBesideLockstepOrIsABuildOfTheSameVersion) {
  const TorchInstall torch{.folder = "/env/torch", .version = "2.11.0", .abi = "1", .device = "cpu", .container = {}};
  const auto built = program_of_build(builds_folder(env_) / build_key(torch, "0.1.0"));
  make_program(built);
  keep_build({.program = built, .torch = torch});
  EXPECT_EQ(trainer_program(lockstep_, env_), built.string());
  EXPECT_HAS(
      message_of(ErrorKind::kEnvironment, [&] { trainer_program({.path = lockstep_.path, .version = "0.2.0"}, env_); }),
      "bin/lockstep-train' is missing: the training half is not built here");
  const auto beside = make_program(folder_.path() / "bin" / "lockstep-train");
  EXPECT_EQ(trainer_program(lockstep_, env_), beside);
}

TEST_F(TrainerProgram, IsTheBuildForThePythonThatIsNamed) {
  make_program(folder_.path() / "bin" / "lockstep-train");
  for (const char* name : {"one", "other"}) {
    const TorchInstall torch{.folder = folder_.path() / name / "lib/python3.11/site-packages/torch",
                             .version = std::string("2.11.0+") + name,
                             .abi = "1",
                             .device = "cpu",
                             .container = {}};
    const auto built = program_of_build(builds_folder(env_) / build_key(torch, "0.1.0"));
    make_program(built);
    keep_build({.program = built, .torch = torch});
  }
  auto values = env_.all();
  values["LOCKSTEP_PYTHON"] = (folder_.path() / "one/bin/python").string();
  EXPECT_HAS(trainer_program(lockstep_, Environment(values)), "2.11.0+one");
  values["LOCKSTEP_PYTHON"] = "/without/a/build/bin/python";
  EXPECT_HAS(trainer_program(lockstep_, Environment(values)), "bin/lockstep-train");
  EXPECT_EQ(trainer_program(lockstep_, Environment(values)).find("2.11.0"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
