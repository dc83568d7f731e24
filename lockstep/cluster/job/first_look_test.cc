// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/first_look.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;

TEST(ScriptOf, IsTheFileThatPythonIsGiven) {
  EXPECT_EQ(script_of({"/opt/bin/python3.11", "-u", "-W", "ignore", "train.py", "--data", "x.py"}), "train.py");
  EXPECT_EQ(script_of({"torchrun", "--nproc_per_node=2", "net/train.py"}), "net/train.py");
  EXPECT_EQ(script_of({"python", "-m", "pkg"}), std::nullopt);
  EXPECT_EQ(script_of({"python", "-c", "pass"}), std::nullopt);
  EXPECT_EQ(script_of({"./a.out", "x.py"}), std::nullopt);
}

TEST(FilesOfJob, AreLookedAtBeforeTheQueue) {
  const testing::TemporaryFolder folder;
  write_whole(folder.path() / "train.py", "", false);
  JobPlan plan;
  plan.paths.work_dir = folder.path();
  plan.program.command = {"python", "trian.py"};
  const auto settings = Recipe::without_file(Environment({}), {});
  const auto missing = message_of(ErrorKind::kEnvironment, [&] { check_files_of_job(plan, settings); });
  EXPECT_HAS(missing, "there is no script '" + (folder.path() / "trian.py").string() + "'");
  EXPECT_HAS(missing, "did you mean 'train.py'? if it is there on the compute nodes alone: LOCKSTEP_DOCTOR=off");
  plan.program.command.back() = "train.py";
  EXPECT_NO_THROW(check_files_of_job(plan, settings));
  plan.program.command.back() = "trian.py";
  plan.container.image = "a.sif";
  EXPECT_NO_THROW(check_files_of_job(plan, settings)) << "it may lie in the image";
}

TEST(FilesOfJob, IncludeTheDataOfARecipe) {
  JobPlan plan;
  plan.program.is_recipe = true;
  const auto settings =
      Recipe::without_file(Environment({}), {{"data.path", "\"/no/such/data\"", {SettingSource::kFlag, "--set"}}});
  EXPECT_HAS(message_of(ErrorKind::kData, [&] { check_files_of_job(plan, settings); }),
             "there is no data set (data.path) '/no/such/data'");
}

TEST(FilesOfJob, IncludeThePythonOfARecipe) {
  const testing::TemporaryFolder folder;
  write_whole(folder.path() / "data.py", "", false);
  JobPlan plan;
  plan.program.is_recipe = true;
  const auto with = [&](const std::string& key, const std::string& name) {
    return Recipe::without_file(Environment({}), {{key, "\"python:" + name + "\"", {SettingSource::kFlag, "--set"}}});
  };
  const auto file = (folder.path() / "dat.py").string();
  for (const char* key : {"data.kind", "model.name", "loss.name"}) {
    const auto missing =
        message_of(ErrorKind::kIo, [&] { check_files_of_job(plan, with(key, file + ":photographs")); });
    EXPECT_HAS(missing, "there is no Python file (" + std::string(key) + ") '" + file + "'");
    EXPECT_HAS(missing, "did you mean 'data.py'?");
  }
  EXPECT_NO_THROW(check_files_of_job(plan, with("data.kind", (folder.path() / "data.py").string() + ":photographs")));
  EXPECT_NO_THROW(check_files_of_job(plan, with("model.name", "torchvision.models:resnet18")))
      << "of the nodes' Python";
}

}  // namespace
}  // namespace lockstep
