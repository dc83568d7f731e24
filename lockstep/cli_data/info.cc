// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli_data/commands.h"
#include "lockstep/cli_data/data_target.h"
#include "lockstep/cli_data/output.h"
#include "lockstep/format/image/image.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

/// The number of images whose headers are read. They are spread evenly over a part. So many are enough to know the
/// sizes, and few enough to be quick on a slow file system.
constexpr std::int64_t kLooks = 200;
constexpr std::size_t kMostProblems = 5;

struct PartInfo {
  std::string split;
  std::int64_t samples = 0;
  std::vector<std::int64_t> class_counts;  ///< Empty if labels are not at hand.
  std::vector<Field> fields;               ///< Empty for encoded images.
  std::int64_t looked_at = 0;              ///< Encoded images only, with all below.
  ImageSize smallest;
  ImageSize largest;
  std::uint64_t mean_bytes = 0;
  std::vector<std::string> problems;
};

std::int64_t area(ImageSize size) { return std::int64_t{size.width} * size.height; }

void look_at_images(const EncodedImages& images, PartInfo& info) {
  info.class_counts.assign(images.classes().size(), 0);
  for (std::int64_t id = 0; id < images.size(); ++id) {
    ++info.class_counts[static_cast<std::size_t>(images.label_of(id))];
  }
  const std::int64_t looks = std::min(images.size(), kLooks);
  std::uint64_t bytes = 0;
  for (std::int64_t i = 0; i < looks; ++i) {
    const std::int64_t id = i * images.size() / looks;
    try {
      const FileBytes file = images.read(id);
      const ImageSize size = ImageDecoder(file.bytes(), "").size();
      bytes += file.size;
      if (info.looked_at == 0 || area(size) < area(info.smallest)) info.smallest = size;
      if (info.looked_at == 0 || area(size) > area(info.largest)) info.largest = size;
      ++info.looked_at;
    } catch (const Error& error) {
      if (info.problems.size() < kMostProblems) {
        info.problems.push_back(images.name_of(id) + ": " + std::string(error.fact()));
      }
    }
  }
  if (info.looked_at > 0) info.mean_bytes = bytes / static_cast<std::uint64_t>(info.looked_at);
}

/// Reading the samples is a copy within memory, so their labels are counted.
void count_labels(const SampleSource& source, PartInfo& info) {
  const auto target = std::ranges::find(info.fields, std::string("target"), &Field::name);
  const bool has_labels = source.classes() > 0 && source.is_in_memory() && target != info.fields.end() &&
                          target->dtype == "I64" && target->shape.empty();
  if (!has_labels) return;
  info.class_counts.assign(static_cast<std::size_t>(source.classes()), 0);
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::byte*> to;
  for (const Field& field : info.fields) to.push_back(memory.emplace_back(field.bytes()).data());
  for (std::int64_t id = 0; id < source.size(); ++id) {
    source.read({.seed = 0, .epoch = 0, .id = id}, to);
    std::int64_t label = 0;
    std::memcpy(&label, to[static_cast<std::size_t>(target - info.fields.begin())], sizeof label);
    ++info.class_counts[static_cast<std::size_t>(label)];
  }
}

std::string more_text(std::size_t count) { return count > 1 ? " and " + std::to_string(count - 1) + " more" : ""; }

PartInfo info_of(const std::string& split, const RawPart& part) {
  PartInfo info;
  info.split = split;
  if (part.images) {
    info.samples = part.images->size();
    look_at_images(*part.images, info);
  } else {
    info.samples = part.samples->size();
    info.fields = part.samples->fields();
    count_labels(*part.samples, info);
  }
  if (!part.left_out.empty()) {
    info.problems.push_back("no image, and left out: " + part.left_out.front() + more_text(part.left_out.size()));
  }
  return info;
}

std::string shape_text(const Field& field) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : field.shape) sizes.push_back(std::to_string(size));
  return field.name + " " + field.dtype + " [" + joined(sizes, ", ") + "]";
}

Json json_of(ImageSize size) { return {size.height, size.width}; }

Json json_of(const PartInfo& info) {
  Json object = {{"split", info.split}, {"samples", info.samples}};
  object["class_counts"] = info.class_counts.empty() ? Json() : Json(info.class_counts);
  Json fields = Json::array();
  for (const Field& field : info.fields) {
    fields.push_back({{"name", field.name}, {"dtype", field.dtype}, {"shape", field.shape}});
  }
  object["fields"] = info.fields.empty() ? Json() : fields;
  object["images"] = Json();
  if (info.looked_at > 0) {
    object["images"] = {{"looked_at", info.looked_at},
                        {"smallest", json_of(info.smallest)},
                        {"largest", json_of(info.largest)},
                        {"mean_bytes", info.mean_bytes}};
  }
  object["problems"] = info.problems;
  return object;
}

std::string text_of(ImageSize size) { return std::to_string(size.width) + " x " + std::to_string(size.height); }

std::string text_of(const PartInfo& info) {
  std::vector<std::string> parts = {std::to_string(info.samples) + " samples"};
  for (const Field& field : info.fields) parts.push_back(shape_text(field));
  if (info.looked_at > 0) {
    parts.push_back("images of " + text_of(info.smallest) + " to " + text_of(info.largest) + " pixels, " +
                    human_bytes(info.mean_bytes) + " on average");
  }
  if (!info.class_counts.empty()) {
    const auto [least, most] = std::ranges::minmax(info.class_counts);
    parts.push_back(least == most ? std::to_string(most) + " of each class"
                                  : std::to_string(least) + " to " + std::to_string(most) + " of a class");
  }
  std::string text = "  " + info.split + ": " + joined(parts, ", ") + "\n";
  for (const std::string& problem : info.problems) text += "    problem: " + problem + "\n";
  return text;
}

}  // namespace

void run_info(const DataRequest& request, const DataContext& context) {
  const DataSettings settings = data_target(request, context.env, context.program);
  const RawPart train = *raw_part(settings, "train");
  std::vector<PartInfo> parts = {info_of("train", train)};
  if (const auto validation = raw_part(settings, "validation", &train)) {
    parts.push_back(info_of("validation", *validation));
  }
  const std::int64_t classes =
      train.images ? static_cast<std::int64_t>(train.class_names.size()) : train.samples->classes();
  if (request.json) {
    Json object = {{"schema", 1}, {"path", settings.path.string()}, {"kind", settings.kind}, {"classes", classes}};
    object["class_names"] = train.class_names.empty() ? Json() : Json(train.class_names);
    object["parts"] = Json::array();
    for (const PartInfo& part : parts) object["parts"].push_back(json_of(part));
    return print_line(object);
  }
  constexpr std::size_t kNamed = 10;
  std::string text = settings.path.string() + ": " + settings.kind;
  if (classes > 0) text += ", " + std::to_string(classes) + " classes";
  if (!train.class_names.empty() && train.class_names.size() <= kNamed) text += ": " + joined(train.class_names, ", ");
  text += "\n";
  for (const PartInfo& part : parts) text += text_of(part);
  print_text(text);
}

}  // namespace lockstep
