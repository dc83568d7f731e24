// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/online_set.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/map_each.h"
#include "lockstep/base/text.h"
#include "lockstep/recipe/raw_setting.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

struct Builtin {
  const char* name;
  const char* toml;
};

constexpr std::array<Builtin, 4> kBuiltin = {{
    {"mnist", R"(
about = "60 000 + 10 000 handwritten digits, 28 x 28"
kind = "idx"
from = ["https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"]
checksums = "TensorFlow Datasets, mnist/checksums.tsv"
files = [
  "train-images-idx3-ubyte.gz 9912422 440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
  "train-labels-idx1-ubyte.gz 28881 3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
  "t10k-images-idx3-ubyte.gz 1648877 8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
  "t10k-labels-idx1-ubyte.gz 4542 f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
]
)"},
    {"cifar10", R"(
about = "50 000 + 10 000 photographs of 10 kinds of things, 32 x 32"
kind = "cifar10"
from = ["https://www.cs.toronto.edu/~kriz/"]
checksums = "TensorFlow Datasets, cifar10/checksums.tsv"
files = ["cifar-10-binary.tar.gz 170052171 c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"]
unpacks_to = "cifar-10-batches-bin"
)"},
    {"cifar100", R"(
about = "50 000 + 10 000 photographs of 100 kinds of things, 32 x 32"
kind = "cifar100"
from = ["https://www.cs.toronto.edu/~kriz/"]
checksums = "TensorFlow Datasets, cifar100/checksums.tsv"
files = ["cifar-100-binary.tar.gz 168513733 58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"]
unpacks_to = "cifar-100-binary"
)"},
    {"hymenoptera", R"(
about = "244 + 153 photographs of ants and bees"
kind = "folder"
from = ["https://download.pytorch.org/tutorial/"]
checksums = "PyTorch's tutorials, .jenkins/download_data.py"
files = ["hymenoptera_data.zip 47286322 fbc41b31d544714d18dd1230b1e2b455e1557766e13e67f9f5a7a23af7c02209"]
unpacks_to = "hymenoptera_data"
)"},
}};

[[noreturn]] void refuse(const std::string& name, const std::string& fact, const std::string& hint = {}) {
  throw Error(ErrorKind::kRecipe, name + ": " + fact, hint);
}

using Settings = std::map<std::string, const RawValue*>;

std::vector<std::string> texts_of(const Settings& settings, const std::string& key, const std::string& name) {
  const auto found = settings.find(key);
  const auto* list = found == settings.end() ? nullptr : std::get_if<std::vector<RawScalar>>(&found->second->data);
  std::vector<std::string> texts;
  for (const RawScalar& scalar : list != nullptr ? *list : std::vector<RawScalar>{}) {
    if (const auto* text = std::get_if<std::string>(&scalar)) texts.push_back(*text);
  }
  if (list == nullptr || texts.empty() || texts.size() != list->size()) {
    refuse(name,
           key + " is " + (found == settings.end() ? "not set" : found->second->shown) + ", want a list of texts");
  }
  return texts;
}

std::string text_of(const Settings& settings, const std::string& key, const std::string& name) {
  const auto found = settings.find(key);
  if (found == settings.end()) return {};
  const auto* scalar = std::get_if<RawScalar>(&found->second->data);
  const auto* text = scalar != nullptr ? std::get_if<std::string>(scalar) : nullptr;
  if (text == nullptr) refuse(name, key + " is " + found->second->shown + ", want a text");
  return *text;
}

bool is_plain_name(const std::string& name) {
  return !name.empty() && !name.starts_with('.') && !name.starts_with('-') && name.find('/') == std::string::npos;
}

OnlineFile file_of(const std::string& line, const std::string& name) {
  const std::vector<std::string> parts = split(line, ' ');
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  const auto bytes = parts.size() == 3 ? parsed_int<std::uint64_t>(parts[1]) : std::nullopt;
  if (!bytes || !is_plain_name(parts[0]) || parts[2].size() != 64 || !std::ranges::all_of(parts[2], is_digit)) {
    refuse(name, "files has '" + line + "', want 'NAME BYTES SHA256'",
           "`stat -c %s FILE` and `sha256sum FILE` tell both; the sum in lower case");
  }
  return {.name = parts[0], .bytes = *bytes, .sha256 = parts[2]};
}

}  // namespace

std::vector<std::string> online_set_names() {
  return map_each(kBuiltin, [](const Builtin& each) { return std::string(each.name); });
}

OnlineSet parsed_online_set(std::string_view toml, const std::string& name) {
  const auto raw = flat_settings({.toml = toml, .name = name, .folder = {}});
  const std::vector<std::string> known = {"about", "kind", "from", "checksums", "files", "unpacks_to"};
  Settings settings;
  for (const RawSetting& each : raw) {
    if (std::ranges::find(known, each.key) == known.end()) {
      refuse(each.origin.where, "unknown key '" + each.key + "', want one of: " + joined(known, ", "));
    }
    settings[each.key] = &each.value;
  }
  OnlineSet set{.name = fs::path(name).stem().string(),
                .about = text_of(settings, "about", name),
                .kind = text_of(settings, "kind", name),
                .from = texts_of(settings, "from", name),
                .checksums = text_of(settings, "checksums", name),
                .files = {},
                .unpacks_to = text_of(settings, "unpacks_to", name)};
  for (const std::string& line : texts_of(settings, "files", name)) set.files.push_back(file_of(line, name));
  if (settings.contains("unpacks_to") && !is_plain_name(set.unpacks_to)) {
    refuse(name, "unpacks_to is '" + set.unpacks_to + "', want the name of a folder");
  }
  return set;
}

OnlineSet online_set(const std::string& word) {
  if (word.ends_with(".toml")) return parsed_online_set(text_of_file(word), word);
  const auto* found = std::ranges::find(kBuiltin, word, &Builtin::name);
  if (found != kBuiltin.end()) return parsed_online_set(found->toml, found->name);
  const auto nearest = nearest_name(word, online_set_names());
  throw Error(ErrorKind::kUsage,
              "there is no data set '" + word + "', want one of: " + joined(online_set_names(), ", "),
              nearest ? "is it '" + *nearest + "'?" : "name a TOML file that describes one: see docs/guide/data.md");
}

}  // namespace lockstep::cli
