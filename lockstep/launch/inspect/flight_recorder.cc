// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/inspect/flight_recorder.h"

#include <sys/stat.h>

#include <span>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/format/torch/pickle.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMostBytes = 64U << 20U;

bool allows_nothing(std::string_view) { return false; }

std::string text_entry(const PickleValue& dict, std::string_view key) {
  const auto* const found = pickle_entry(dict, key);
  return found != nullptr && found->is_text() ? std::string(found->text) : std::string();
}

std::int64_t int_entry(const PickleValue& dict, std::string_view key) {
  const auto* const found = pickle_entry(dict, key);
  return found != nullptr && found->kind == PickleKind::kInt ? found->integer : 0;
}

std::string sizes_text(const PickleValue* sizes) {
  if (sizes == nullptr) return {};
  std::vector<std::string> shapes;
  for (const auto* shape : sizes->items) {
    std::vector<std::string> numbers;
    for (const auto* number : shape->items) numbers.push_back(std::to_string(number->integer));
    shapes.push_back("[" + joined(numbers, ", ") + "]");
  }
  return joined(shapes, ", ");
}

/// Returns the innermost frame outside of PyTorch.
std::string caller(const PickleValue* frames) {
  if (frames == nullptr) return {};
  for (const auto* frame : frames->items) {
    const auto path = text_entry(*frame, "filename");
    if (path.empty() || path.find("/torch/") != std::string::npos) continue;
    return text_entry(*frame, "name") + " (" + fs::path(path).filename().string() + ":" +
           std::to_string(int_entry(*frame, "line")) + ")";
  }
  return {};
}

RecordedCollective collective_of(const PickleValue& entry) {
  RecordedCollective found{.number = int_entry(entry, "collective_seq_id"),
                           .operation = text_entry(entry, "profiling_name"),
                           .sizes = sizes_text(pickle_entry(entry, "input_sizes")),
                           .state = text_entry(entry, "state"),
                           .group = {},
                           .caller = caller(pickle_entry(entry, "frames"))};
  const auto* const group = pickle_entry(entry, "process_group");
  const auto* const name = group != nullptr ? pickle_part(*group, 1) : nullptr;
  if (name != nullptr && name->is_text()) found.group = name->text;
  return found;
}

std::optional<RecordedCollective> chosen(const PickleValue& root) {
  const auto* const entries = pickle_entry(root, "entries");
  if (entries == nullptr || entries->items.empty()) return std::nullopt;
  for (const auto* entry : entries->items) {
    const auto* const retired = pickle_entry(*entry, "retired");  // Gloo's collectives never become "completed".
    const bool is_over = retired != nullptr && retired->integer != 0;
    if (!is_over && text_entry(*entry, "state") != "completed") return collective_of(*entry);
  }
  return collective_of(*entries->items.back());
}

}  // namespace

std::optional<RecordedCollective> read_flight_record(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) > kMostBytes || error) return std::nullopt;
  try {
    const auto bytes = text_of_file(path);
    const auto record = Pickle::read(std::as_bytes(std::span(bytes)), path.string(), allows_nothing);
    return chosen(record.root());
  } catch (const Error&) {
    return std::nullopt;
  }
}

fs::path flight_record_path(const Environment& env, int rank) {
  for (const char* name : {"TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"}) {
    if (const auto prefix = env.get(name)) return *prefix + std::to_string(rank);
  }
  // Newer versions of PyTorch write to the cache folder under the first name, older ones to /tmp under the second.
  const auto cache = env.get("XDG_CACHE_HOME");
  const auto caches = cache ? fs::path(*cache) : fs::path(env.get("HOME").value_or("")) / ".cache";
  fs::path newest;
  fs::file_time_type newest_time{};
  for (const auto& folder : {caches / "torch", fs::path("/tmp")}) {
    for (const char* name : {"comm_lib_trace_rank_", "nccl_trace_rank_"}) {
      const auto path = folder / (name + std::to_string(rank));
      std::error_code error;
      const auto time = fs::last_write_time(path, error);
      if (error || (!newest.empty() && time <= newest_time)) continue;
      newest = path;
      newest_time = time;
    }
  }
  return newest;
}

std::string describe(const RecordedCollective& collective) {
  auto text = "collective " + std::to_string(collective.number) + ", " + collective.operation;
  if (!collective.sizes.empty()) text += " of " + collective.sizes;
  if (!collective.group.empty()) text += " in " + collective.group;
  if (!collective.state.empty()) text += ", " + collective.state;
  if (!collective.caller.empty()) text += ", from " + collective.caller;
  return text;
}

}  // namespace lockstep
