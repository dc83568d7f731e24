// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/bundle.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "lockstep/base/file.h"
#include "tests/support/fake_node.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::FakeNode;

TEST(WithoutSecrets, TakesOutWhatIsNamedLikeOne) {
  const Environment env{{"WANDB_API_KEY", "k1234567"}, {"HF_TOKEN", "hf_abcdef"}, {"USER", "someone"}};
  const auto clean = without_secrets(
      "export WANDB_API_KEY=k1234567\n"
      "HF_TOKEN=\"hf_abcdef and more\" python train.py --api-key zzz999 --lr 0.1\n"
      "curl https://me:hunter22@site.org/x\n"
      "{\"password\": \"swordfish\", \"lr\": 0.1}\n"
      "the log also says hf_abcdef in passing\n",
      env);
  for (const char* secret : {"k1234567", "hf_abcdef", "zzz999", "hunter22", "swordfish"}) {
    EXPECT_EQ(clean.find(secret), std::string::npos) << clean;
  }
  for (const char* kept : {"--lr 0.1", "python train.py", "https://me:", "@site.org/x", "\"lr\": 0.1", "in passing"}) {
    EXPECT_HAS(clean, kept);
  }
}

struct Bundle : ::testing::Test {
  Bundle() {
    node.slurm(1, 1);
    node.of.run.run_dir = "/run";
    node.set("MY_SECRET", "swordfish");
    node.write("/run/job.sh", "#!/bin/bash\nexport MY_SECRET=swordfish\nsrun lockstep exec -- python train.py\n");
    node.write("/run/logs/job.log", std::string(3U << 20U, 'x') + " the end swordfish\n");
    node.of.system.run = [](const std::vector<std::string>& command) {
      return command[2] == "scontrol" ? ProcessResult{.exit_code = 0, .output = "JobId=4711\n", .errors = {}}
                                      : ProcessResult{.exit_code = 127, .output = {}, .errors = {}};
    };
  }
  FakeNode node;
};

TEST_F(Bundle, HoldsScriptLogsLayoutAndVersionsButNoSecret) {
  const auto files = bundle_files(node.of, "{}", "0.1.0");
  std::vector<std::string> names;
  for (const auto& file : files) {
    names.push_back(file.name);
    EXPECT_EQ(file.text.find("swordfish"), std::string::npos) << file.name;
    EXPECT_LT(file.text.size(), 2U << 20U) << file.name;
  }
  for (const char* name : {"report.json", "version.txt", "environment.txt", "layout.txt", "machine.txt", "profile.toml",
                           "run/job.sh", "run/logs/job.log", "tools/job.txt"}) {
    EXPECT_NE(std::ranges::find(names, name), names.end()) << name;
  }
}

TEST_F(Bundle, IsATarThatTarReadsAndNobodyElseMay) {
  const testing::TemporaryFolder out;
  const auto path = out.path() / "ticket.tar.gz";
  const auto files = bundle_files(node.of, "{}", "0.1.0");
  write_bundle(path, files);
  struct stat found {};
  ASSERT_EQ(::stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0600U);
  ASSERT_EQ(run_process({"tar", "-xzf", path.string(), "-C", out.path().string()}, Environment::of_process()).exit_code,
            0);
  for (const auto& file : files) EXPECT_EQ(text_of_file(out.path() / "ticket" / file.name), file.text);
  EXPECT_HAS(testing::message_of(ErrorKind::kUsage, [&] { write_bundle(path, files); }), "is there already");
}

TEST_F(Bundle, IsAFolderUnderAnyOtherName) {
  const testing::TemporaryFolder out;
  write_bundle(out.path() / "ticket", bundle_files(node.of, "{}", "0.1.0"));
  EXPECT_HAS(text_of_file(out.path() / "ticket/run/job.sh"), "lockstep exec");
}

}  // namespace
}  // namespace lockstep
