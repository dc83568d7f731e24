// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/source/text_source.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <system_error>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/data/transform/sample_rng.h"
#include "lockstep/format/mapped_file.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLongestWindow = 1 << 20;

/// Returns the path if it is a file, or the files of the folder, sorted by name. A file with several links is listed
/// once.
std::vector<fs::path> text_files(const fs::path& path) {
  std::error_code failure;
  if (fs::is_regular_file(path, failure)) return {path};
  if (!fs::is_directory(path, failure)) {
    throw Error(ErrorKind::kData, path.string() + ": no such file or folder",
                "data.path wants a text file, or a folder of them");
  }
  std::vector<fs::path> found;
  for (fs::recursive_directory_iterator entry(path, failure); !failure && entry != fs::recursive_directory_iterator();
       entry.increment(failure)) {
    if (entry->is_regular_file()) found.push_back(entry->path());
  }
  if (failure) throw io_error("list", path, failure.value());
  std::ranges::sort(found);
  // Files are listed before links, so that a text is listed under its own name. A text that is listed twice could be in
  // both parts of a split.
  std::set<fs::path> seen;
  std::stable_partition(found.begin(), found.end(), [](const fs::path& file) { return !fs::is_symlink(file); });
  std::erase_if(found, [&](const fs::path& file) { return !seen.insert(fs::canonical(file)).second; });
  std::ranges::sort(found);
  return found;
}

/// Joins the bytes of all files to one text.
class Corpus {
 public:
  explicit Corpus(const fs::path& path) {
    for (const fs::path& file : text_files(path)) {
      MappedFile mapping(file);
      if (mapping.bytes().empty()) continue;
      if (size_ > 0) ++size_;
      parts_.push_back({.begin = size_, .name = file.string(), .mapping = std::move(mapping)});
      size_ += static_cast<std::int64_t>(parts_.back().mapping.bytes().size());
    }
  }

  std::int64_t size() const { return size_; }

  void read(std::int64_t at, std::span<std::uint8_t> to) const {
    for (std::size_t part = part_at(at); !to.empty(); ++part) {
      const std::span<const std::byte> rest =
          parts_[part].mapping.bytes().subspan(static_cast<std::size_t>(at - parts_[part].begin));
      const std::size_t count = std::min(rest.size(), to.size());
      if (count > 0) std::memcpy(to.data(), rest.data(), count);
      to = to.subspan(count);
      at += static_cast<std::int64_t>(count);
      if (to.empty()) return;
      to[0] = 0;
      to = to.subspan(1);
      ++at;
    }
  }

  std::string name_of(std::int64_t at) const {
    const Part& part = parts_[part_at(at)];
    return part.name + " from byte " + std::to_string(at - part.begin) + " on";
  }

 private:
  struct Part {
    std::int64_t begin = 0;
    std::string name;
    MappedFile mapping;
  };

  std::size_t part_at(std::int64_t at) const {
    const auto after = std::ranges::upper_bound(parts_, at, {}, &Part::begin);
    return static_cast<std::size_t>(after - parts_.begin()) - 1;
  }

  std::vector<Part> parts_;
  std::int64_t size_ = 0;
};

class TextSource : public SampleSource {
 public:
  TextSource(const fs::path& path, const TextOptions& options) : options_(checked(options)), corpus_(path) {
    if (corpus_.size() < options_.window) {
      throw Error(ErrorKind::kData,
                  path.string() + ": " + std::to_string(corpus_.size()) + " bytes of text, want at least the " +
                      std::to_string(options_.window) + " of one window",
                  "give it more text, or set data.window lower");
    }
    fields_ = {{.name = "input", .dtype = "I64", .shape = {options_.window}},
               {.name = "target", .dtype = "I64", .shape = {options_.window}}};
  }

  std::int64_t size() const override { return corpus_.size() / options_.window; }
  const std::vector<Field>& fields() const override { return fields_; }
  std::int64_t classes() const override { return kTextVocabulary; }
  bool is_in_memory() const override { return true; }
  std::string name_of(std::int64_t id) const override { return corpus_.name_of(id * options_.window); }

  void read(const SampleKey& key, std::span<std::byte* const> to) const override {
    const auto window = static_cast<std::size_t>(options_.window);
    std::vector<std::uint8_t> text(window);
    corpus_.read(key.id * options_.window, text);
    auto* input = reinterpret_cast<std::int64_t*>(to[0]);
    auto* target = reinterpret_cast<std::int64_t*>(to[1]);
    SampleRng draws(key, 0);
    bool is_any_masked = false;
    for (std::size_t i = 0; i < window; ++i) {
      input[i] = text[i];
      target[i] = kNotMasked;
      if (draws.uniform() >= options_.share) continue;
      mask(text[i], draws, input[i], target[i]);
      is_any_masked = true;
    }
    // At least one position must be masked. Otherwise the mean loss of the sample would be 0 / 0, which is NaN.
    if (is_any_masked) return;
    const auto place = static_cast<std::size_t>(draws.below(options_.window));
    mask(text[place], draws, input[place], target[place]);
  }

 private:
  static TextOptions checked(const TextOptions& options) {
    if (options.window < 1 || options.window > kLongestWindow) {
      throw Error(ErrorKind::kRecipe, "data.window is " + std::to_string(options.window) + ", want 1 to " +
                                          std::to_string(kLongestWindow) + " bytes");
    }
    if (!(options.share > 0 && options.share <= 1)) {
      throw Error(ErrorKind::kRecipe,
                  "the share of masked bytes is " + shortest(options.share) + ", want above 0 and at most 1");
    }
    return options;
  }

  static void mask(std::uint8_t byte, SampleRng& draws, std::int64_t& input, std::int64_t& target) {
    target = byte;
    const double which = draws.uniform();
    if (which < 0.8) {
      input = kMaskId;
    } else if (which < 0.9) {
      input = draws.below(256);
    }
  }

  TextOptions options_;
  Corpus corpus_;
  std::vector<Field> fields_;
};

}  // namespace

std::unique_ptr<SampleSource> text_source(const std::filesystem::path& path, const TextOptions& options) {
  return std::make_unique<TextSource>(path, options);
}

}  // namespace lockstep
