// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/recipe/recipe.h"
#include "tests/support/source_root.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

const fs::path kRecipes = lockstep::testing::source_root() / "recipes";

std::vector<fs::path> shipped_recipes() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(kRecipes)) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Reads `toml` as a recipe. If the recipe is accepted, it must be the same after writing and reading it again. If not,
/// it must be refused by an Error.
bool is_taken(const std::string& toml, const std::vector<Override>& overrides = {}) {
  try {
    const Recipe recipe = Recipe::parse(toml, "mutant.toml", "/r", {}, overrides);
    const Recipe again = Recipe::parse(recipe.to_toml(), "again.toml", "/r", {});
    EXPECT_EQ(again.digest(), recipe.digest()) << toml;
    EXPECT_EQ(again.settings().size(), recipe.settings().size()) << toml;
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRecipe) << error.what() << "\n" << toml;
    return false;
  }
}

constexpr int kMutants = 4000;  // Seconds, also under sanitizers.

class Mutation {
 public:
  explicit Mutation(std::vector<std::string> seeds) : seeds_(std::move(seeds)) {}

  std::string next() {
    std::string text = seeds_[below(seeds_.size())];
    for (std::size_t edits = 1 + below(4); edits > 0; --edits) edit(text);
    return text;
  }

 private:
  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }

  void edit(std::string& text) {
    static const std::vector<std::string> kPieces = {"[",
                                                     "]",
                                                     "\"",
                                                     "'",
                                                     "=",
                                                     "\n",
                                                     ".",
                                                     "-",
                                                     "1e400",
                                                     "9223372036854775808",
                                                     "0x",
                                                     "nan",
                                                     "inf",
                                                     "\\u0000",
                                                     "\"\"\"",
                                                     "{",
                                                     "}",
                                                     "#",
                                                     "\xFF",
                                                     "é",
                                                     "“",
                                                     "[[data]]\n",
                                                     "1979-05-27T07:32:00Z",
                                                     "trainer.seed = 1\n",
                                                     "[a.b.c]\n",
                                                     "true",
                                                     "\0",
                                                     "[[[["};
    const std::size_t at = below(text.size() + 1);
    const std::size_t length = std::min(below(12), text.size() - at);
    switch (below(4)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, kPieces[below(kPieces.size())]);
        break;
      case 2:
        text.insert(at, text.substr(below(text.size() + 1), below(40)));
        break;
      default:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
    }
  }

  std::vector<std::string> seeds_;
  std::mt19937_64 random_{20240607};
};

TEST(ShippedRecipes, LoadAndReadBackTheSame) {
  const auto files = shipped_recipes();
  ASSERT_GE(files.size(), 3U);
  for (const auto& file : files) {
    const Recipe open = Recipe::load(file, {}, {}, Gaps::kAllowed);
    EXPECT_TRUE(open.notes().empty()) << file;
    std::vector<Override> overrides;
    if (open.text("data.kind") == "idx" && !open.has("data.path")) overrides.push_back(override_of("data.path=/data"));
    const Recipe recipe = Recipe::load(file, {}, overrides);
    EXPECT_EQ(Recipe::parse(recipe.to_toml(), "again.toml", "/r", {}).digest(), recipe.digest()) << file;
  }
}

TEST(ShippedRecipes, SaySomethingOfThemselvesFirst) {
  for (const auto& file : shipped_recipes()) EXPECT_TRUE(text_of_file(file).starts_with("# ")) << file;
}

TEST(RecipeFuzz, EveryMutantIsTakenWholeOrRefused) {
  std::vector<std::string> seeds;
  for (const auto& file : shipped_recipes()) seeds.push_back(text_of_file(file));
  Mutation mutation(std::move(seeds));
  int taken = 0;
  for (int i = 0; i < kMutants; ++i) taken += is_taken(mutation.next()) ? 1 : 0;
  EXPECT_GT(taken, kMutants / 40) << "the mutants are too wild to reach the schema";
}

TEST(RecipeFuzz, EveryMutantOfAnOverrideIsTakenWholeOrRefused) {
  const std::string head = "[model]\nname = 'mlp'\n[data]\nkind = 'synthetic'\n";
  Mutation mutation({"model.hidden=[1, 2]", "trainer.max_time=01:00:00", "optimizer.lr=1e-3", "model.weights=/a/b c"});
  for (int i = 0; i < kMutants; ++i) {
    const std::string text = mutation.next();
    if (text.find('=') == std::string::npos || text.find('=') == 0) continue;
    const auto equals = text.find('=');
    is_taken(
        head,
        {{.key = text.substr(0, equals), .value = text.substr(equals + 1), .origin = {SettingSource::kSet, "--set"}}});
  }
}

}  // namespace
}  // namespace lockstep
