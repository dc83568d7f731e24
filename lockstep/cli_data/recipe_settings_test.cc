// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli_data/recipe_settings.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

DataSettings settings_of(const std::string& data) {
  return data_settings_of(Recipe::parse("[model]\nname = \"mlp\"\n[data]\n" + data, "r.toml", "/r", {}));
}

TEST(RecipeSettings, OfEachKindReachItsSource) {
  const DataSettings folder = settings_of(
      "kind = \"folder\"\npath = \"set\"\nby_content = false\nstrict = true\nsplit = 0.1\ntransforms = [\"flip\"]\n");
  EXPECT_EQ(folder.path, "/r/set");
  EXPECT_FALSE(folder.folder.by_content);
  EXPECT_TRUE(folder.folder.is_strict);
  EXPECT_EQ(folder.split, 0.1);
  EXPECT_EQ(folder.transforms, std::vector<std::string>{"flip"});
  EXPECT_FALSE(folder.eval_transforms);

  const DataSettings hdf5 = settings_of("kind = \"hdf5\"\npath = \"a.h5\"\ninput = \"u\"\ntarget = \"v\"\n");
  EXPECT_EQ(hdf5.hdf5.input, "u");
  EXPECT_EQ(hdf5.hdf5.target, "v");

  const DataSettings table = settings_of("kind = \"csv\"\npath = \"a.csv\"\nlabel = \"y\"\nregression = true\n");
  EXPECT_EQ(table.csv.label, "y");
  EXPECT_TRUE(table.csv.is_regression);

  const DataSettings text = settings_of("kind = \"text\"\npath = \"a.txt\"\nwindow = 7\nmask_share = 0.5\n");
  EXPECT_EQ(text.text.window, 7);
  EXPECT_EQ(text.text.share, 0.5);
}

}  // namespace
}  // namespace lockstep
