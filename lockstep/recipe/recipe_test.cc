// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipe/recipe.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDigits = R"(
[model]
name = "mlp"
hidden = [64, 32]

[data]
kind = "idx"
path = "digits"
global_batch = 50

[trainer]
seed = 7
max_time = "1-02:03:04"

[optimizer]
name = "sgd"
lr = 1
momentum = 0.9
)";

Override set(const std::string& key, const std::string& value) {
  return {.key = key, .value = value, .origin = {SettingSource::kSet, "--set"}};
}

Override flag(const std::string& key, const std::string& value, const std::string& name) {
  return {.key = key, .value = value, .origin = {SettingSource::kFlag, name}};
}

Recipe digits(const std::vector<Override>& overrides = {}, const Environment& env = {}) {
  return Recipe::parse(kDigits, "digits.toml", "/recipes", env, overrides);
}

/// A temporary folder. The destructor removes it with all its files.
struct Folder {
  Folder() : path(fs::path(::testing::TempDir()) / ("recipe-" + std::to_string(::getpid()))) {
    fs::create_directories(path);
  }
  ~Folder() { fs::remove_all(path); }
  void write(const fs::path& name, std::string_view text) const {
    fs::create_directories((path / name).parent_path());
    std::ofstream(path / name) << text;
  }
  fs::path path;
};

TEST(Recipe, KnowsEachValueAndItsLine) {
  const Recipe recipe = digits();
  EXPECT_EQ(recipe.name(), "digits");
  EXPECT_EQ(recipe.text("model.name"), "mlp");
  EXPECT_EQ(recipe.integers("model.hidden"), (std::vector<std::int64_t>{64, 32}));
  EXPECT_EQ(recipe.integer("trainer.seed"), 7);
  EXPECT_EQ(recipe.origin("trainer.seed").where, "digits.toml:12");
  EXPECT_EQ(recipe.origin("trainer.seed").source, SettingSource::kRecipe);
  EXPECT_TRUE(recipe.notes().empty());
}

TEST(Recipe, TakesAWholeNumberWhereARealIsWanted) { EXPECT_EQ(digits().real("optimizer.lr"), 1.0); }

TEST(Recipe, ReadsDurationsAsSeconds) {
  EXPECT_EQ(digits().real("trainer.max_time"), 26 * 3600 + 3 * 60 + 4);
  EXPECT_EQ(digits({set("trainer.max_time", "01:30:00")}).real("trainer.max_time"), 5400);
  EXPECT_EQ(digits({set("trainer.max_time", "\"100:00:00\"")}).real("trainer.max_time"), 360000);
  EXPECT_EQ(digits({set("trainer.max_time", "90.5")}).real("trainer.max_time"), 90.5);
}

TEST(Recipe, FillsInPyTorchsDefaultsForTheChosenOptimizer) {
  const Recipe sgd = digits();
  EXPECT_EQ(sgd.real("optimizer.weight_decay"), 0.0);
  EXPECT_EQ(sgd.origin("optimizer.weight_decay").where, "default");
  EXPECT_FALSE(sgd.has("optimizer.betas"));
  const Recipe adamw = digits({set("optimizer.name", "adamw")});
  EXPECT_EQ(adamw.real("optimizer.weight_decay"), 0.01);
  EXPECT_EQ(adamw.reals("optimizer.betas"), (std::vector<double>{0.9, 0.999}));
  EXPECT_FALSE(adamw.has("optimizer.momentum"));
}

TEST(Recipe, LetsAHigherSourceWin) {
  const Environment env{{"LOCKSTEP_SET", "trainer.seed=8; optimizer.lr = 0.5 ;"}};
  const Recipe from_env = digits({}, env);
  EXPECT_EQ(from_env.integer("trainer.seed"), 8);
  EXPECT_EQ(from_env.origin("trainer.seed").where, "LOCKSTEP_SET");
  EXPECT_EQ(from_env.real("optimizer.lr"), 0.5);
  EXPECT_EQ(digits({set("trainer.seed", "9")}, env).integer("trainer.seed"), 9);
  const Recipe from_flag = digits({flag("trainer.seed", "10", "--seed"), set("trainer.seed", "9")}, env);
  EXPECT_EQ(from_flag.integer("trainer.seed"), 10);
  EXPECT_EQ(from_flag.origin("trainer.seed").where, "--seed");
}

TEST(Recipe, LetsTheLastOfTwoEqualOverridesHold) {
  EXPECT_EQ(digits({set("trainer.seed", "1"), set("trainer.seed", "2")}).integer("trainer.seed"), 2);
}

TEST(Recipe, StandsOnTheUsersFile) {
  const Folder folder;
  folder.write("lockstep/config.toml", "[trainer]\nseed = 1\nthreads = 3\n[data]\nworkers = 5\n");
  const Recipe recipe = digits({}, {{"XDG_CONFIG_HOME", folder.path.string()}, {"HOME", "/nowhere"}});
  EXPECT_EQ(recipe.integer("trainer.seed"), 7);
  EXPECT_EQ(recipe.integer("trainer.threads"), 3);
  EXPECT_EQ(recipe.origin("trainer.threads").where, (folder.path / "lockstep/config.toml").string() + ":3");
  folder.write(".config/lockstep/config.toml", "[data]\nworkers = 6\n");
  EXPECT_EQ(digits({}, {{"HOME", folder.path.string()}}).integer("data.workers"), 6);
}

TEST(Recipe, LetsTheHigherOfTwoExclusiveKeysReplaceTheOther) {
  const Recipe recipe = digits({set("data.batch", "64")});
  EXPECT_EQ(recipe.integer("data.batch"), 64);
  EXPECT_FALSE(recipe.has("data.global_batch"));
  ASSERT_EQ(recipe.notes().size(), 1U);
  EXPECT_EQ(recipe.notes()[0],
            "data.global_batch = 50 (digits.toml:9) is left out: data.batch = 64 (--set) replaces it");
  EXPECT_FALSE(digits().has("data.batch")) << "a default must not stand beside the key that excludes it";
}

TEST(Recipe, DropsWithANoteWhatANewNameDoesNotTake) {
  const Recipe recipe = digits({set("optimizer.name", "adam"), set("data.kind", "synthetic")});
  EXPECT_FALSE(recipe.has("optimizer.momentum"));
  EXPECT_FALSE(recipe.has("data.path"));
  EXPECT_EQ(recipe.real("optimizer.lr"), 1.0);
  ASSERT_EQ(recipe.notes().size(), 2U);
  EXPECT_EQ(
      recipe.notes()[0],
      "data.path = \"digits\" (digits.toml:8) is left out: data.kind = \"synthetic\" (--set) takes no such setting");
  EXPECT_EQ(
      recipe.notes()[1],
      "optimizer.momentum = 0.9 (digits.toml:18) is left out: optimizer.name = \"adam\" (--set) takes no such setting");
}

TEST(Recipe, TakesEitherNameOfOneSetting) {
  const Recipe recipe = digits({set("trainer.num_nodes", "4"), set("cluster.nodes", "4")});
  EXPECT_EQ(recipe.integer("cluster.nodes"), 4);
  EXPECT_EQ(recipe.integer("trainer.num_nodes"), 4);
  EXPECT_FALSE(digits().has("trainer.num_nodes"));
}

TEST(Recipe, LetsALimitOfAnotherKindReplaceTheDefaultOne) {
  EXPECT_FALSE(digits().has("trainer.max_epochs"));
  const Recipe recipe = Recipe::parse("[model]\nname = 'cnn'\n[data]\nkind = 'synthetic'\n", "r", "/", {});
  EXPECT_EQ(recipe.integer("trainer.max_epochs"), 1);
  EXPECT_EQ(recipe.integer("data.batch"), 32);
}

TEST(Recipe, TakesATypedWordAsTextWhereTextIsWanted) {
  const Recipe recipe = digits({set("data.path", "2024"), set("model.name", "'mlp'"), set("model.hidden", "[8]")});
  EXPECT_EQ(recipe.text("data.path"), "2024");
  EXPECT_EQ(recipe.integers("model.hidden"), std::vector<std::int64_t>{8});
  EXPECT_EQ(digits({set("data.path", "/données")}).text("data.path"), "/données");
  EXPECT_EQ(digits({set("data.path", "a\nb = 1")}).text("data.path"), "a\nb = 1");
}

TEST(Recipe, ResolvesPathsFromWhereTheyWereWritten) {
  EXPECT_EQ(digits().path("data.path"), "/recipes/digits");
  EXPECT_EQ(digits({set("data.path", "here")}).path("data.path"), fs::current_path() / "here");
  const Environment env{{"SCRATCH", "/scratch/me"}, {"HOME", "/home/me"}};
  EXPECT_EQ(digits({set("data.path", "$SCRATCH/x/../mnist")}, env).path("data.path"), "/scratch/me/mnist");
  EXPECT_EQ(digits({set("data.path", "~/mnist")}, env).path("data.path"), "/home/me/mnist");
}

TEST(Recipe, LoadsFromAFileBesideItsData) {
  const Folder folder;
  folder.write("my run.toml", kDigits);
  const Recipe recipe = Recipe::load(folder.path / "my run.toml", {});
  EXPECT_EQ(recipe.name(), "my run");
  EXPECT_EQ(recipe.path("data.path"), folder.path / "digits");
  EXPECT_EQ(recipe.origin("model.name").where, "my run.toml:3");
}

TEST(Recipe, LeavesGapsOpenOnlyWhereAsked) {
  const Folder folder;
  folder.write("open.toml", "[model]\nname = 'cnn'\n[data]\nkind = 'idx'\n");
  EXPECT_FALSE(Recipe::load(folder.path / "open.toml", {}, {}, Gaps::kAllowed).has("data.path"));
  EXPECT_THROW(Recipe::load(folder.path / "open.toml", {}), Error);
}

TEST(Recipe, WritesItselfSoThatItReadsBackTheSame) {
  const std::string odd = "a \"quoted\" \\ path\twith\nbreaks, \x7F and é";
  const Recipe recipe =
      digits({set("data.path", odd), set("optimizer.lr", "1e-7"), set("trainer.clip_norm", "123456789012345680000.0")});
  const Recipe again = Recipe::parse(recipe.to_toml(), "again.toml", "/elsewhere", {});
  EXPECT_EQ(again.path("data.path"), recipe.path("data.path"));
  EXPECT_EQ(again.digest(), recipe.digest());
  ASSERT_EQ(again.settings().size(), recipe.settings().size());
  for (const auto& [key, setting] : recipe.settings()) {
    if (key == "data.path") continue;
    EXPECT_EQ(again.settings().at(key).value, setting.value) << key;
  }
  EXPECT_NE(recipe.to_toml().find("seed = 7  # digits.toml:12\n"), std::string::npos) << recipe.to_toml();
  EXPECT_NE(recipe.to_toml().find("lr = 1e-07  # --set\n"), std::string::npos) << recipe.to_toml();
}

TEST(Recipe, ResolvesTheFileThatAModelsNameHolds) {
  const auto recipe = Recipe::parse("[model]\nname = 'script:nets/a.pt'\n[data]\nkind = 'synthetic'\n", "r.toml",
                                    "/recipes", Environment{});
  EXPECT_EQ(recipe.named_file("model.name"), "/recipes/nets/a.pt");
  EXPECT_NE(recipe.to_toml().find("name = \"script:/recipes/nets/a.pt\""), std::string::npos) << recipe.to_toml();
  EXPECT_FALSE(digits().named_file("model.name"));
  EXPECT_THROW(Recipe::parse("[model]\nname = 'script:'\n", "r.toml", "/recipes", Environment{}), Error);
}

TEST(Recipe, KeepsTheArgumentsOfAPythonModelWithTheirTypes) {
  const std::string text =
      "[model]\nname = 'python:nets/a.py:Net'\n[model.args]\nwidth = 24\nscale = 1.0\nnames = ['a', 'b']\n'odd name' = "
      "true\n"
      "config.depth = 2\n[data]\nkind = 'synthetic'\n";
  const auto recipe = Recipe::parse(text, "r.toml", "/recipes", {}, {set("model.args.width", "25")});
  const auto name = recipe.python_name("model.name");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->source, "/recipes/nets/a.py");
  EXPECT_EQ(name->object, "Net");
  EXPECT_TRUE(name->is_file);
  EXPECT_FALSE(recipe.named_file("model.name"));
  const auto again = Recipe::parse(recipe.to_toml(), "again.toml", "/elsewhere", {});
  EXPECT_EQ(again.python_name("model.name")->source, "/recipes/nets/a.py");
  for (const auto& [key, value] : std::map<std::string, SettingValue>{{"width", std::int64_t{25}},
                                                                      {"scale", 1.0},
                                                                      {"names", std::vector<std::string>{"a", "b"}},
                                                                      {"odd name", true},
                                                                      {"config.depth", std::int64_t{2}}}) {
    EXPECT_EQ(recipe.settings().at("model.args." + key).value, value) << key;
    EXPECT_EQ(again.settings().at("model.args." + key).value, value) << key << "\n" << recipe.to_toml();
  }
}

TEST(Recipe, TakesAPythonModulesNameForNoPath) {
  const auto recipe = Recipe::parse(
      "[model]\nname = 'python:torchvision.models:resnet18'\n[data]\nkind = 'synthetic'\n", "r.toml", "/recipes", {});
  EXPECT_EQ(recipe.python_name("model.name")->source, "torchvision.models");
  EXPECT_NE(recipe.to_toml().find("name = \"python:torchvision.models:resnet18\""), std::string::npos);
}

TEST(Recipe, ListsTheKeysThatNameSomethingInPython) {
  const auto recipe = Recipe::parse(
      "[model]\nname = 'python:net.py:Net'\n[model.args]\nother = 'python:net.py:Other'\n[data]\nkind = "
      "'python:data.py:photographs'\n[metrics]\nhits = 'python:net.py:hits'\n",
      "r.toml", "/recipes", {});
  EXPECT_EQ(recipe.python_keys(), (std::vector<std::string>{"data.kind", "metrics.hits", "model.name"}));
  EXPECT_EQ(recipe.python_name("metrics.hits")->source, "/recipes/net.py");
}

TEST(Recipe, RefusesArgumentsThatNoPythonModelTakes) {
  for (const auto* text :
       {"[model]\nname = 'mlp'\n[model.args]\nwidth = 1\n[data]\nkind = 'synthetic'\n",
        "[model]\nname = 'python:net.py'\n[data]\nkind = 'synthetic'\n",
        "[model]\nname = 'python:net.py:Net'\n[model.args]\nat = 07:30:00\n[data]\nkind = 'synthetic'\n"}) {
    EXPECT_THROW(Recipe::parse(text, "r.toml", "/recipes", {}), Error) << text;
  }
}

TEST(Recipe, WritesAPathWithAVariableAsItWasWritten) {
  const std::string text = digits({set("data.path", "$SCRATCH/mnist")}).to_toml();
  EXPECT_NE(text.find("path = \"$SCRATCH/mnist\""), std::string::npos) << text;
}

TEST(Recipe, DigestsWhatDecidesTheResultAndNothingElse) {
  const auto digest = digits().digest();
  EXPECT_EQ(digits({set("data.path", "/other"), set("data.workers", "3"), set("trainer.devices", "4"),
                    set("observe.log_every", "1"), set("trainer.seed", "7"), set("optimizer.lr", "1.0")})
                .digest(),
            digest);
  EXPECT_NE(digits({set("trainer.seed", "8")}).digest(), digest);
  EXPECT_NE(digits({set("optimizer.momentum", "0.8")}).digest(), digest);
  EXPECT_NE(digits({set("data.global_batch", "51")}).digest(), digest);
}

TEST(OverrideOf, SplitsAtTheFirstEqualsSign) {
  const Override given = override_of(" data.path = /a=b ");
  EXPECT_EQ(given.key, "data.path");
  EXPECT_EQ(given.value, "/a=b");
  EXPECT_EQ(given.origin.source, SettingSource::kSet);
  for (const auto* bad : {"trainer.seed", "=7", ""}) {
    try {
      override_of(bad);
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_NE(std::string(error.what()).find("want KEY=VALUE"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace lockstep
