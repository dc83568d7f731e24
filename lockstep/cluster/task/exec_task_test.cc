// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/task/exec_task.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;

ExecTask decide(ExecOptions options, Environment::Map variables = {}) {
  if (options.cluster == "auto") options.cluster = "generic";
  options.dry_run = true;
  variables.try_emplace("HOME", "/users/me");
  return prepare_task(options, Environment(std::move(variables)), Log());
}

TEST(SettingsOfProfile, TakeTheFirstLettersOfInterfaceNames) {
  Profile profile;
  profile.name = "here";
  profile.devices.visible = "one";
  profile.devices.order = {4, 5};
  profile.network.interfaces = {"hsn*,ib0"};
  const auto settings = settings_of(profile);
  EXPECT_EQ(settings.cluster, "here");
  EXPECT_EQ(settings.devices, DeviceVisibility::kOne);
  EXPECT_EQ(settings.device_order, (std::vector<std::string>{"4", "5"}));
  EXPECT_EQ(settings.network.interfaces, (std::vector<std::string>{"hsn", "ib0"}));
}

TEST(SettingsOfProfile, KeepTrackersOfflineWhereNodesHaveNoInternet) {
  Profile profile;
  EXPECT_FALSE(settings_of(profile).variables.always.contains("WANDB_MODE"));
  profile.storage.internet = false;
  profile.env["WANDB_MODE"] = "disabled";
  const auto variables = settings_of(profile).variables.always;
  EXPECT_EQ(variables.at("WANDB_MODE"), "disabled") << "the site's own word comes first";
  EXPECT_EQ(variables.at("HF_HUB_OFFLINE"), "1");
}

TEST(PrepareTask, OfADryRunOnlyDecides) {
  const testing::TemporaryFolder folder;
  const auto run_dir = folder.path() / "run";
  const auto task = decide({.run_dir = run_dir.string(), .no_bind = true});
  EXPECT_EQ(task.at.world, 1);
  EXPECT_EQ(task.run_dir, run_dir);
  EXPECT_EQ(task.binding.cpus, task.allowed);
  EXPECT_EQ(task.node_folder, "") << "there is no job";
  EXPECT_EQ(task.environment.env.get("RANK"), "0");
  EXPECT_FALSE(std::filesystem::exists(run_dir));
}

TEST(PrepareTask, PrefersAnOptionToItsVariable) {
  const Environment::Map variables{
      {"LOCKSTEP_ON_SOCKETS", "stop"}, {"LOCKSTEP_STUCK_AFTER", "60"}, {"LOCKSTEP_RUN_DIR", "/runs/a"}};
  const auto by_variable = decide({}, variables);
  EXPECT_EQ(by_variable.sockets, SocketPolicy::kStop);
  EXPECT_EQ(by_variable.stuck_after_s, 60);
  EXPECT_EQ(by_variable.run_dir, "/runs/a");
  const auto by_option = decide({.run_dir = "/runs/b", .on_sockets = "ignore", .stuck_after = "0"}, variables);
  EXPECT_EQ(by_option.sockets, SocketPolicy::kIgnore);
  EXPECT_EQ(by_option.stuck_after_s, 0);
  EXPECT_EQ(by_option.run_dir, "/runs/b");
}

TEST(PrepareTask, KeepsTrackersFilesWithTheRunWhereNodesHaveNoInternet) {
  const auto offline = decide({.cluster = "juwels-booster", .run_dir = "/runs/a"}).environment.env;
  EXPECT_EQ(offline.get("MLFLOW_TRACKING_URI"), "file:/runs/a/mlruns");
  EXPECT_EQ(offline.get("WANDB_DIR"), "/runs/a");
  const auto own = decide({.cluster = "juwels-booster", .run_dir = "/runs/a"}, {{"MLFLOW_TRACKING_URI", "file:/mine"}});
  EXPECT_EQ(own.environment.env.get("MLFLOW_TRACKING_URI"), "file:/mine");
  EXPECT_FALSE(decide({.cluster = "generic", .run_dir = "/runs/a"}).environment.env.get("MLFLOW_TRACKING_URI"));
}

TEST(PrepareTask, RefusesAWordThatItDoesNotKnow) {
  EXPECT_HAS(message_of(ErrorKind::kUsage, [] { decide({.on_sockets = "panic"}); }),
             "on sockets: 'panic', want warn, stop or ignore");
  EXPECT_HAS(message_of(ErrorKind::kUsage, [] { decide({.stuck_after = "5m"}); }),
             "stuck after: '5m', want a whole number of seconds");
}

}  // namespace
}  // namespace lockstep
