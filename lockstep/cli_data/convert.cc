// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/source/convert.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli_data/commands.h"
#include "lockstep/cli_data/output.h"
#include "lockstep/observe/work_bar.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// Returns the parts of a data set in a folder, found by their usual names. If there are none, the folder itself is the
/// training part.
std::vector<ConvertPart> parts_of(const fs::path& root, const FolderOptions& options) {
  constexpr auto kSplits =
      std::to_array<std::pair<const char*, const char*>>({{"train", "train"}, {"validation", "val"}, {"test", "test"}});
  std::vector<ConvertPart> parts;
  for (const auto& [split, group] : kSplits) {
    const fs::path folder = split_folder(root, split);
    const bool is_train = parts.empty();
    if (folder.empty() && !is_train) continue;
    const auto classes = is_train ? std::vector<std::string>{} : parts.front().index.classes;
    parts.push_back({.group = group, .index = folder_index(folder.empty() ? root : folder, classes, options)});
    if (folder.empty()) break;
  }
  return parts;
}

Json json_of(const DataRequest& request, const std::vector<ConvertPart>& parts, const Converted& converted) {
  Json object = {{"schema", 1},
                 {"path", request.to},
                 {"images", converted.done.images},
                 {"images_kept", converted.images_kept},
                 {"bytes", converted.done.bytes},
                 {"classes", parts.front().index.classes},
                 {"parts", Json::array()}};
  for (const ConvertPart& part : parts) {
    object["parts"].push_back(
        {{"group", part.group}, {"images", part.index.images.size()}, {"left_out", part.index.left_out}});
  }
  return object;
}

}  // namespace

void run_convert(const DataRequest& request, const DataContext& context) {
  const auto parts = parts_of(request.path, {.by_content = !request.by_name, .is_strict = request.strict});
  for (const ConvertPart& part : parts) {
    if (!part.index.left_out.empty()) context.log.info(left_out_note(part.index.root, part.index.left_out));
  }
  Converted converted;
  {
    WorkBar bar(progress_options(2, 0, context.env), fs::path(request.to).filename().string());
    converted = convert_folders(parts, request.to, [&](const ConvertProgress& progress) {
      bar.show(progress.bytes, progress.all_bytes);
      return true;
    });
  }
  if (request.json) return print_line(json_of(request, parts, converted));
  std::string text = request.to + ": " + std::to_string(converted.done.images) + " images in " +
                     std::to_string(parts.front().index.classes.size()) + " classes, " +
                     human_bytes(converted.done.bytes);
  if (converted.images_kept > 0) {
    text += "; " + std::to_string(converted.images_kept) + " were there from an earlier call";
  }
  print_text(text + "\n");
}

}  // namespace lockstep
