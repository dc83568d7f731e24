// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/source/cifar_source.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/format/mapped_file.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// One form in which the data set may be on disk.
struct Layout {
  const char* folder;
  const char* suffix;
  bool is_pickled;
};

struct Names {
  std::array<Layout, 2> layouts;
  std::vector<std::string> train;
  std::vector<std::string> validation;
};

Names names_of(CifarKind kind) {
  if (kind == CifarKind::k10) {
    return {{{{"cifar-10-batches-bin", ".bin", false}, {"cifar-10-batches-py", "", true}}},
            {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"},
            {"test_batch"}};
  }
  return {{{{"cifar-100-binary", ".bin", false}, {"cifar-100-python", "", true}}}, {"train"}, {"test"}};
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

struct Place {
  fs::path folder;
  Layout layout;
};

/// Returns where the first file of the split is: in `path` itself, or in the folder that the archive makes when it is
/// unpacked.
Place place_of(const fs::path& path, const Names& names, const std::string& first) {
  for (const Layout& layout : names.layouts) {
    for (const fs::path& folder : {path, path / layout.folder}) {
      if (is_file(folder / (first + layout.suffix))) return {folder, layout};
    }
  }
  throw Error(ErrorKind::kData,
              path.string() + ": neither " + first + ".bin nor " + first + " is there, nor in " +
                  names.layouts[0].folder + " or " + names.layouts[1].folder,
              "data.path wants the folder that the archive was unpacked in; the data sets are at "
              "https://www.cs.toronto.edu/~kriz/cifar.html");
}

class CifarSource : public SampleSource {
 public:
  CifarSource(const fs::path& path, CifarKind kind, const std::string& split)
      : classes_(static_cast<std::int64_t>(kind)) {
    if (split != "train" && split != "validation") {
      throw Error(ErrorKind::kUsage, "split is '" + split + "', want 'train' or 'validation'");
    }
    const Names names = names_of(kind);
    const std::vector<std::string>& files = split == "train" ? names.train : names.validation;
    const Place place = place_of(path, names, files[0]);
    for (const std::string& file : files)
      add(place.folder / (file + place.layout.suffix), kind, place.layout.is_pickled);
    fields_ = {{.name = "input", .dtype = "U8", .shape = {3, 32, 32}}, {.name = "target", .dtype = "I64", .shape = {}}};
  }

  std::int64_t size() const override { return ends_.back(); }
  const std::vector<Field>& fields() const override { return fields_; }
  std::int64_t classes() const override { return classes_; }
  bool is_in_memory() const override { return true; }
  std::optional<FixedSamples> fixed() const override { return itself(); }
  std::string name_of(std::int64_t id) const override {
    const auto [file, item] = place_of_sample(id);
    return file->name + " #" + std::to_string(item);
  }

  void read(const SampleKey& key, std::span<std::byte* const> to) const override {
    const auto [file, item] = place_of_sample(key.id);
    std::memcpy(to[0], file->images.image(item).data(), kCifarImageBytes);
    const std::int64_t label = file->images.labels[static_cast<std::size_t>(item)];
    std::memcpy(to[1], &label, sizeof label);
  }

 private:
  struct File {
    std::string name;
    MappedFile mapping;  // Ranks of a node share its memory.
    CifarImages images;
  };

  void add(const fs::path& path, CifarKind kind, bool is_pickled) {
    if (!is_file(path)) {
      throw Error(ErrorKind::kData, path.string() + ": no such file, but others of the same split are there",
                  "copy all files of the archive");
    }
    File file{.name = path.filename().string(), .mapping = MappedFile(path), .images = {}};
    const auto parse = is_pickled ? parse_cifar_pickle : parse_cifar;
    file.images = parse(file.mapping.bytes(), kind, path.string());
    if (is_pickled) file.mapping = {};
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + file.images.size());
    files_.push_back(std::move(file));
  }

  std::pair<const File*, std::int64_t> place_of_sample(std::int64_t id) const {
    const auto file = static_cast<std::size_t>(std::ranges::upper_bound(ends_, id) - ends_.begin());
    return {&files_[file], id - (file > 0 ? ends_[file - 1] : 0)};
  }

  std::int64_t classes_;
  std::vector<File> files_;
  std::vector<std::int64_t> ends_;  ///< Samples up to the end of each file.
  std::vector<Field> fields_;
};

}  // namespace

std::unique_ptr<SampleSource> cifar_source(const std::filesystem::path& path, CifarKind kind,
                                           const std::string& split) {
  return std::make_unique<CifarSource>(path, kind, split);
}

}  // namespace lockstep
