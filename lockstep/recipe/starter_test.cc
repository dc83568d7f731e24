// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipe/starter.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(StarterRecipe, RunsAsItIs) {
  const Recipe recipe = Recipe::parse(starter_recipe({}), "starter.toml", "/", {});
  EXPECT_EQ(recipe.text("model.name"), "mlp");
  EXPECT_EQ(recipe.text("data.kind"), "synthetic");
}

TEST(StarterRecipe, SetsWhatWasAskedForAndShowsDefaultsOfTheRest) {
  const std::string text = starter_recipe({override_of("optimizer.name=adam"), override_of("trainer.seed=7")});
  EXPECT_TRUE(holds(text, "\nname = \"adam\" ")) << text;
  EXPECT_TRUE(holds(text, "\nseed = 7 ")) << text;
  EXPECT_TRUE(holds(text, "\n# betas = [0.9, 0.999] ")) << text;
  EXPECT_TRUE(holds(text, "\n# max_epochs = 1 ")) << text;
}

TEST(StarterRecipe, LeavesOutWhatTheChoiceDoesNotTake) {
  const std::string text = starter_recipe({override_of("optimizer.name=adam"), override_of("model.name=cnn")});
  EXPECT_FALSE(holds(text, "momentum =")) << text;
  EXPECT_FALSE(holds(text, "hidden =")) << text;
  EXPECT_FALSE(holds(text, "num_nodes =")) << text;
}

TEST(StarterRecipe, RefusesAWrongSetting) {
  try {
    starter_recipe({override_of("trainer.sed=7")});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRecipe);
    EXPECT_TRUE(holds(error.what(), "did you mean trainer.seed?")) << error.what();
  }
}

}  // namespace
}  // namespace lockstep
