// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The interface of data sets. Derive from SampleSource to train on data of your own.
///
///     struct Squares : lockstep::SampleSource {
///       std::int64_t size() const override { return 1000; }
///       const std::vector<lockstep::Field>& fields() const override { return list; }
///       std::string name_of(std::int64_t id) const override { return "square " + std::to_string(id); }
///       void read(const lockstep::SampleKey& key, std::span<std::byte* const> to) const override {
///         *reinterpret_cast<float*>(to[0]) = static_cast<float>(key.id * key.id);
///       }
///       std::vector<lockstep::Field> list = {{"input", "F32", {1}}};
///     };

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// One part of a sample, such as an image or a label. It has the same shape in every sample, so a batch is one block of
/// memory.
struct Field {
  std::string name;                 ///< "input", "target"
  std::string dtype;                ///< The dtype under its name in safetensors, such as U8, I64 or F32.
  std::vector<std::int64_t> shape;  ///< The shape in one sample. Empty for a single number.

  /// Returns the field's bytes in one sample.
  std::size_t bytes() const;
};

/// The key of one read of a sample. All random choices in the read are drawn from this key alone, so the pixels are the
/// same with any number of ranks and workers.
struct SampleKey {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t id = 0;  ///< In [0, size).
  /// Index among those that this reader takes of the epoch. -1 for a sample that is read by itself.
  std::int64_t ordinal = -1;
};

/// The part of an image that a reading takes. It begins at (left, top), which may lie before the image, and is as large
/// as the reading. Then it is mirrored if is_mirrored. Pixels outside the image are 0.
struct PixelMove {
  int left = 0;
  int top = 0;
  bool is_mirrored = false;
};

class SampleSource;

/// A source split into two parts: samples that are the same in every read, and the random choice that each read makes
/// among their pixels.
struct FixedSamples {
  std::shared_ptr<const SampleSource> samples;  ///< May be the source itself, which must then outlive it.
  /// Returns the part of field 0, [channels, height, width], that a read takes. Null if every read takes the whole
  /// sample.
  std::function<PixelMove(const SampleKey&)> move{};
  int margin = 0;  ///< The most pixels by which a part reaches beyond the image.
};

/// A set of samples, from files, an array or a generator. It does not use LibTorch, so readers run under any sanitizer.
class SampleSource {
 public:
  virtual ~SampleSource() = default;

  virtual std::int64_t size() const = 0;
  virtual const std::vector<Field>& fields() const = 0;

  /// Decodes one sample. `to[f]` has room for fields()[f].bytes() and lies in the batch's own memory.
  ///
  /// Threads: several may call it at once. Throws: Error(kData) if the sample is damaged, Error(kIo) if it cannot be
  ///          read.
  virtual void read(const SampleKey& key, std::span<std::byte* const> to) const = 0;

  /// Returns a name for people, such as a file's path or "t10k-images-idx3-ubyte #17".
  virtual std::string name_of(std::int64_t id) const = 0;

  /// Returns the number of classes, or 0 if the target is no class. Labels are in [0, classes).
  virtual std::int64_t classes() const { return 0; }

  /// True if read() is a copy within memory. An extra thread would then cost more than it saves.
  virtual bool is_in_memory() const { return false; }

  /// True if samples can only be read one after the other, whatever their ids. Readers then take them in this order,
  /// unshuffled, on the caller's thread.
  virtual bool is_stream() const { return false; }

  /// Returns the samples to keep in memory. Returns nothing if random transforms do more than choose pixels.
  virtual std::optional<FixedSamples> fixed() const { return {}; }

 protected:
  /// Returns fixed() for a source whose read() gives the same bytes in every epoch.
  FixedSamples itself() const { return {.samples = {std::shared_ptr<const void>(), this}}; }
};

}  // namespace lockstep
