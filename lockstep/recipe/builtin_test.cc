// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipe/builtin.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// Two recipes in the folder that an installed program searches.
class BuiltinRecipes : public ::testing::Test {
 protected:
  BuiltinRecipes() {
    const auto folder = root_ / "share/lockstep/recipes";
    fs::create_directories(folder);
    std::ofstream(folder / "small.toml") << "# A small one: for tests. And more.\n# The rest.\n[model]\nname = 'mlp'\n";
    std::ofstream(folder / "another.toml") << "# Another\n# over two lines. And more.\n\n# Not this.\n";
    std::ofstream(folder / "README.md") << "no recipe\n";
  }
  ~BuiltinRecipes() override { fs::remove_all(root_); }

  fs::path root_ = fs::path(::testing::TempDir()) / ("builtin-" + std::to_string(::getpid()));
  fs::path program_ = root_ / "bin/lockstep";
};

TEST_F(BuiltinRecipes, AreFoundBesideTheProgramByName) {
  const auto recipes = builtin_recipes(program_);
  ASSERT_EQ(recipes.size(), 2U);
  EXPECT_EQ(recipes[0].name, "another");
  EXPECT_EQ(recipes[0].about, "Another over two lines");
  EXPECT_EQ(recipes[1].name, "small");
  EXPECT_EQ(recipes[1].about, "A small one");
  EXPECT_TRUE(fs::exists(recipes[1].path));
}

TEST_F(BuiltinRecipes, AreNoneWhereTheProgramStandsAlone) {
  EXPECT_TRUE(builtin_recipes("/nowhere/in/this/file/system/lockstep").empty());
}

TEST_F(BuiltinRecipes, AreMeantByABareNameAndFilesByAPath) {
  EXPECT_EQ(recipe_file("small", program_), root_ / "share/lockstep/recipes/small.toml");
  EXPECT_EQ(recipe_file("mine/small", program_), "mine/small");
  EXPECT_EQ(recipe_file("small.toml", program_), "small.toml");
}

TEST_F(BuiltinRecipes, WinOverAFolderOfTheirNameAndYieldToAFile) {
  const auto before = fs::current_path();
  const auto work = root_ / "work";
  fs::create_directories(work / "small");
  fs::create_directories(work / "data");
  std::ofstream(work / "another") << "[model]\nname = 'mlp'\n";
  fs::current_path(work);
  EXPECT_EQ(recipe_file("small", program_), root_ / "share/lockstep/recipes/small.toml");
  EXPECT_EQ(recipe_file("another", program_), "another");
  try {
    recipe_file("data", program_);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_EQ(std::string(error.fact()), "'data' is a folder, and no built-in recipe");
  }
  fs::current_path(before);
}

TEST_F(BuiltinRecipes, AreNamedWhereAWordIsNearOne) {
  try {
    recipe_file("smal", program_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_EQ(std::string(error.what()),
              "'smal' is neither a file nor a built-in recipe\n"
              "  hint: did you mean 'small'? `lockstep recipe ls` lists them");
  }
}

}  // namespace
}  // namespace lockstep
