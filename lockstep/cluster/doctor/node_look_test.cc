// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/node_look.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "lockstep/cluster/doctor/limited_child.h"
#include "tests/support/fake_node.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using testing::FakeNode;
using testing::found;
using testing::JuwelsNode;
using testing::listed;

constexpr milliseconds kShort{300};
constexpr milliseconds kLong{120'000};

double seconds_of(const std::function<void()>& work) {
  const auto from = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
}

TEST(LimitedChild, HandsOverWhatWasSaidAndTheCode) {
  const auto child = run_limited(
      [](int pipe) {
        EXPECT_EQ(::write(pipe, "two words", 9), 9);
        return 5;
      },
      kLong);
  EXPECT_EQ(child.said, "two words");
  EXPECT_EQ(child.exit_code, 5);
  EXPECT_EQ(run_limited([](int) { return ::raise(SIGKILL); }, kLong).exit_code, 137);
}

TEST(LimitedChild, IsLeftWhenTheTimeIsUpWithWhatItSaid) {
  LimitedChild child;
  const auto time = seconds_of([&] {
    child = run_limited(
        [](int pipe) {
          EXPECT_EQ(::write(pipe, "begun", 5), 5);
          ::signal(SIGTERM, SIG_IGN);
          while (true) ::pause();
          return 0;
        },
        kShort);
  });
  EXPECT_EQ(child.said, "begun");
  EXPECT_EQ(child.exit_code, std::nullopt);
  EXPECT_LT(time, 60);
}

TEST(LimitedChild, IsNotWaitedForByWhatItLeavesBehind) {
  // A child of the child keeps the pipe open. It ends together with the process group of this test.
  std::string said;
  const auto time = seconds_of([&] {
    const auto child = run_limited(
        [](int pipe) {
          const pid_t left = ::fork();
          if (left == 0) {
            ::alarm(100);
            while (true) ::pause();
          }
          const auto text = std::to_string(left);
          EXPECT_GT(::write(pipe, text.data(), text.size()), 0);
          return 0;
        },
        kLong);
    said = child.said;
    EXPECT_EQ(child.exit_code, 0);
  });
  EXPECT_LT(time, 60);
  ::kill(std::stoi(said), SIGKILL);
}

const ProgramTrial kNothing{};

NodeLook look_at(const FakeNode& node, const ProgramTrial& trial = {},
                 NodeLimits limits = {.look = kLong, .torch = kLong}) {
  return look_at_node(node.of, trial, limits);
}

TEST(NodeLook, SaysNothingOfASoundNode) {
  const JuwelsNode node;
  const auto look = look_at(node);
  EXPECT_EQ(listed(look.findings), "");
  EXPECT_FALSE(look.is_sick);
  EXPECT_TRUE(look.has_started);
}

TEST(NodeLook, CallsANodeSickByTheNameThatSlurmKnows) {
  JuwelsNode node;
  node.set("SLURMD_NODENAME", "jwb0007");
  node.of.system.nvidia = [] { return NvidiaLibrary{.is_loaded = true, .status = 0, .devices = 3}; };
  const auto look = look_at(node, {.command = {"sh", "-c", "kill $PPID"}});
  EXPECT_TRUE(look.is_sick);
  ASSERT_NE(found(look.findings, "devices-nvidia-lost"), nullptr) << listed(look.findings);
  EXPECT_NE(found(look.findings, "devices-nvidia-lost")->fix.find("--exclude=jwb0007"), std::string::npos);
}

TEST(NodeLook, CallsNoNodeSickForTheJobsOwnSettings) {
  JuwelsNode node;
  node.set("CUDA_VISIBLE_DEVICES", "");
  const auto look = look_at(node);
  ASSERT_NE(found(look.findings, "devices-hidden"), nullptr) << listed(look.findings);
  EXPECT_TRUE(has_error(look.findings));
  EXPECT_FALSE(look.is_sick);
}

TEST(NodeLook, IsSilentWhereNothingSaysWhatTheDevicesAre) {
  FakeNode unknown;
  unknown.slurm(1, 4, 4);
  EXPECT_EQ(listed(look_at(unknown).findings), "");
  FakeNode lumi("lumi-g");
  lumi.slurm(1, 8, 8);
  EXPECT_NE(found(look_at(lumi).findings, "devices-missing"), nullptr);
}

TEST(NodeLook, EndsInTimeWhereADriverHangsAndKeepsWhatWasFound) {
  JuwelsNode node;
  node.set("CUDA_VISIBLE_DEVICES", "");
  node.of.system.device_health = [] {
    while (true) ::pause();
    return std::vector<DeviceHealth>{};
  };
  NodeLook look;
  const auto time = seconds_of([&] { look = look_at(node, kNothing, {.look = milliseconds(2000), .torch = kLong}); });
  EXPECT_LT(time, 60);
  EXPECT_NE(found(look.findings, "devices-hidden"), nullptr) << listed(look.findings);
  const auto* slow = found(look.findings, "check-too-long");
  ASSERT_NE(slow, nullptr) << listed(look.findings);
  EXPECT_EQ(slow->severity, Severity::kWarning);
  EXPECT_NE(slow->fact.find("health of the devices took more than 2 s"), std::string::npos) << slow->fact;
}

TEST(NodeLook, LeavesAllOutButTheProgramWhereDoctorIsOff) {
  JuwelsNode node;
  node.set({{"CUDA_VISIBLE_DEVICES", ""}, {"LOCKSTEP_DOCTOR", "off"}, {"PATH", "/usr/bin:/bin"}});
  const auto look = look_at(node, {.command = {"false"}});
  EXPECT_EQ(listed(look.findings), "");
  EXPECT_FALSE(look.has_started);
}

TEST(NodeLook, TriesTheProgramOnTheFirstNodeAlone) {
  JuwelsNode node;
  node.set("PATH", "/usr/bin:/bin");
  EXPECT_FALSE(look_at(node, {.command = {"no-such-program"}}).has_started);
  node.set({{"SLURM_PROCID", "1"}, {"SLURM_NODEID", "1"}});
  EXPECT_TRUE(look_at(node, {.command = {"no-such-program"}}).has_started);
}

/// A fake Python. Whatever it should run, it prints what PyTorch would print.
ProgramTrial python(const std::string& script) { return {.command = {"sh", "-c", script}, .is_python = true}; }

TEST(NodeLook, RefusesAPyTorchThatSeesNoDevice) {
  JuwelsNode node;
  node.set({{"PATH", "/usr/bin:/bin"}, {"CUDA_VISIBLE_DEVICES", "0,1"}});
  auto look =
      look_at(node, python("echo lockstep: imported 2.9.0+cpu None None; echo lockstep: no device Torch not compiled"));
  const auto* blind = found(look.findings, "devices-not-seen");
  ASSERT_NE(blind, nullptr) << listed(look.findings);
  EXPECT_EQ(blind->severity, Severity::kError);
  EXPECT_FALSE(look.is_sick) << "another node would not help";
  EXPECT_NE(
      blind->fact.find(
          "PyTorch 2.9.0+cpu is made for the CPU only, CUDA_VISIBLE_DEVICES='0,1', and it says 'Torch not compiled'"),
      std::string::npos)
      << blind->fact;
  EXPECT_NE(blind->fix.find("--devices 0"), std::string::npos);
  look = look_at(node, python("echo lockstep: imported 2.9.0+cu126 12.6 None; echo lockstep: no device"));
  EXPECT_NE(found(look.findings, "devices-not-seen")->fact.find("made for CUDA 12.6"), std::string::npos);
}

TEST(NodeLook, LeavesAPythonAloneThatHasNoPyTorchOrFailsWithIt) {
  JuwelsNode node;
  node.set("PATH", "/usr/bin:/bin");
  EXPECT_EQ(listed(look_at(node, python("echo lockstep: python")).findings), "");
  const auto broken = look_at(node, python("echo lockstep: python; echo lockstep: importing; kill -SEGV $$"));
  EXPECT_EQ(listed(broken.findings), "");
  EXPECT_TRUE(broken.has_started);
  EXPECT_FALSE(look_at(node, python("echo a line of the set-up; exit 3")).has_started);
}

TEST(NodeLook, TellsADriverThatHangsFromASlowImport) {
  JuwelsNode node;
  node.set("PATH", "/usr/bin:/bin");
  const NodeLimits limits{.look = kLong, .torch = milliseconds(2000)};
  auto look = look_at(node, python("echo lockstep: imported 2.9.0 12.6 None; while :; do :; done"), limits);
  EXPECT_NE(found(look.findings, "devices-not-answering"), nullptr) << listed(look.findings);
  EXPECT_TRUE(look.is_sick);
  look = look_at(node, python("echo lockstep: importing; while :; do :; done"), limits);
  ASSERT_NE(found(look.findings, "check-too-long"), nullptr) << listed(look.findings);
  EXPECT_FALSE(has_error(look.findings));
  EXPECT_TRUE(look.has_started);
}

}  // namespace
}  // namespace lockstep
