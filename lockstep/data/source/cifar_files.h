// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// The kind of CIFAR data. Its value is the number of classes.
enum class CifarKind { k10 = 10, k100 = 100 };

inline constexpr std::size_t kCifarImageBytes = 3072;  // [3, 32, 32]

/// The images of one CIFAR file, each with [3, 32, 32] bytes, and their labels. For CIFAR-100 these are the fine
/// labels.
struct CifarImages {
  std::span<const std::byte> bytes = {};
  std::size_t first = 0;  ///< Offset of the first image in `bytes`.
  std::size_t step = 0;   ///< From one image to the next.
  std::vector<std::uint8_t> labels = {};
  std::shared_ptr<const void> owner = {};  ///< Keeps `bytes` if they are not the caller's.

  std::int64_t size() const { return static_cast<std::int64_t>(labels.size()); }
  std::span<const std::byte> image(std::int64_t i) const {
    return bytes.subspan(first + static_cast<std::size_t>(i) * step, kCifarImageBytes);
  }
};

/// Reads the binary form. For each image it has the label, for CIFAR-100 the coarse and the fine one, and then the
/// bytes. Nothing is copied, so `bytes` must outlive the result. `name` is for messages.
///
/// Throws: Error(kData) if the length is not a whole number of images, or if a label is out of range; it names the
///         label's index.
/// Source: the data sets' page, https://www.cs.toronto.edu/~kriz/cifar.html.
CifarImages parse_cifar(std::span<const std::byte> bytes, CifarKind kind, const std::string& name);

/// Reads the pickled form, which torchvision leaves on disk. It is a dict with "data", an array of bytes [N, 3072], and
/// "labels" or "fine_labels". No code of the pickle is run.
///
/// Throws: Error(kData) as above; also if an entry is missing or has another type or length, or if the pickle needs any
///         class besides NumPy arrays.
CifarImages parse_cifar_pickle(std::span<const std::byte> bytes, CifarKind kind, const std::string& name);

}  // namespace lockstep
