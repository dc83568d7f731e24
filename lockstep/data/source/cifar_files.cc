// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/source/cifar_files.h"

#include "lockstep/base/error.h"
#include "lockstep/format/torch/pickle.h"
#include "lockstep/format/torch/pickle_numpy.h"

namespace lockstep {
namespace {

constexpr std::int64_t kCoarseClasses = 20;

void require(bool holds, const std::string& name, const std::string& fact,
             const std::string& hint = "copy or download the file again") {
  if (!holds) throw Error(ErrorKind::kData, name + ": " + fact, hint);
}

std::string set_name(CifarKind kind) { return "CIFAR-" + std::to_string(static_cast<int>(kind)); }

std::uint8_t checked_label(std::int64_t label, std::int64_t classes, std::size_t place, const std::string& name) {
  require(
      label >= 0 && label < classes, name,
      "label #" + std::to_string(place) + " is " + std::to_string(label) + ", want 0 to " + std::to_string(classes - 1),
      "is data.kind the other CIFAR's?");
  return static_cast<std::uint8_t>(label);
}

const PickleValue& entry_of(const PickleValue& root, const std::string& key, const std::string& name) {
  const PickleValue* entry = pickle_entry(root, key);
  require(entry != nullptr, name, "no '" + key + "' in the pickle, which is " + pickle_kind(root),
          "is data.kind the other CIFAR's, or the file of another data set?");
  return *entry;
}

}  // namespace

CifarImages parse_cifar(std::span<const std::byte> bytes, CifarKind kind, const std::string& name) {
  const std::size_t labels = kind == CifarKind::k10 ? 1 : 2;
  const std::size_t record = labels + kCifarImageBytes;
  require(!bytes.empty() && bytes.size() % record == 0, name,
          "the file holds " + std::to_string(bytes.size()) + " bytes, want a multiple of the " +
              std::to_string(record) + " of one image of " + set_name(kind));
  CifarImages images{.bytes = bytes, .first = labels, .step = record};
  images.labels.reserve(bytes.size() / record);
  for (std::size_t at = 0; at < bytes.size(); at += record) {
    const std::size_t place = at / record;
    if (labels == 2) checked_label(std::to_integer<std::int64_t>(bytes[at]), kCoarseClasses, place, name);
    const auto label = std::to_integer<std::int64_t>(bytes[at + labels - 1]);
    images.labels.push_back(checked_label(label, static_cast<std::int64_t>(kind), place, name));
  }
  return images;
}

CifarImages parse_cifar_pickle(std::span<const std::byte> bytes, CifarKind kind, const std::string& name) {
  const Pickle pickle = Pickle::read(bytes, name, is_numpy_name);
  const NumpyArray data = numpy_array(entry_of(pickle.root(), "data", name), name + ": 'data'");
  const bool is_right = data.dtype == "U8" && data.shape.size() == 2 && data.shape[0] >= 1 &&
                        data.shape[1] == static_cast<std::int64_t>(kCifarImageBytes);
  std::string shape;
  for (const std::int64_t size : data.shape) shape += (shape.empty() ? "" : ", ") + std::to_string(size);
  require(is_right, name, "'data' is " + data.dtype + " [" + shape + "], want U8 [N, 3072]");

  const std::string key = kind == CifarKind::k10 ? "labels" : "fine_labels";
  const PickleValue& labels = entry_of(pickle.root(), key, name);
  require(labels.kind == PickleKind::kList, name, "'" + key + "' is " + pickle_kind(labels) + ", want a list");
  require(
      labels.items.size() == static_cast<std::size_t>(data.shape[0]), name,
      std::to_string(labels.items.size()) + " labels for " + std::to_string(data.shape[0]) + " images, want as many");
  CifarImages images{.step = kCifarImageBytes};
  for (const PickleValue* label : labels.items) {
    require(label->kind == PickleKind::kInt, name, "a label is " + pickle_kind(*label) + ", want an integer");
    images.labels.push_back(checked_label(label->integer, static_cast<std::int64_t>(kind), images.labels.size(), name));
  }
  // The pickle may hold the bytes in its own memory, so they are copied once.
  auto own = std::make_shared<std::vector<std::byte>>(data.bytes.begin(), data.bytes.end());
  images.bytes = *own;
  images.owner = std::move(own);
  return images;
}

}  // namespace lockstep
