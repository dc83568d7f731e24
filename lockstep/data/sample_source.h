// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// One part of a sample: an image, a label. Every sample's is of the same shape, so that a batch is one block of
/// memory.
struct Field {
  std::string name;                 ///< "input", "target"
  std::string dtype;                ///< As in safetensors: U8 I64 F32 …
  std::vector<std::int64_t> shape;  ///< Of one sample; empty for a single number.

  /// Bytes of one sample's.
  std::size_t bytes() const;
};

/// Names one reading of a sample. All random choices in a reading are drawn from it alone, so that any number of ranks
/// and workers gives the same pixels.
struct SampleKey {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t id = 0;  ///< In [0, size).
};

/// The part of an image that a reading takes: it begins there, before the image or within it, is as large as the
/// reading, and is mirrored then. What lies outside of the image is 0.
struct PixelMove {
  int left = 0;
  int top = 0;
  bool is_mirrored = false;
};

class SampleSource;

/// A source taken apart: samples that are the same whenever they are read, and what a reading does to them.
struct FixedSamples {
  std::shared_ptr<const SampleSource> samples;  ///< May be the source itself, which must outlive it then.
  /// Which part a reading takes of field 0, [channels, height, width]; null where it takes samples as they are.
  std::function<PixelMove(const SampleKey&)> move{};
  int margin = 0;  ///< How far a part reaches beyond the image at most.
};

/// Where samples come from: files, an array, a generator. Free of LibTorch, so that loaders run under any sanitizer.
class SampleSource {
 public:
  virtual ~SampleSource() = default;

  virtual std::int64_t size() const = 0;
  virtual const std::vector<Field>& fields() const = 0;

  /// Decodes one sample: `to[f]` has room for fields()[f].bytes() and lies in the batch's own memory.
  ///
  /// Threads: called by several at once. Throws: Error(kData), Error(kIo).
  virtual void read(const SampleKey& key, std::span<std::byte* const> to) const = 0;

  /// What a person calls the sample: a file's path, "t10k-images-idx3-ubyte #17".
  virtual std::string name_of(std::int64_t id) const = 0;

  /// Labels in [0, classes), or 0 where the target is no class.
  virtual std::int64_t classes() const { return 0; }

  /// A claim: read() is a copy within memory, so a thread of its own would cost more than it saves.
  virtual bool is_in_memory() const { return false; }

  /// For whoever keeps samples: nothing where chance changes more than which pixels are taken.
  virtual std::optional<FixedSamples> fixed() const { return {}; }

 protected:
  /// fixed() of a source whose read() gives the same in every epoch.
  FixedSamples itself() const { return {.samples = {std::shared_ptr<const void>(), this}}; }
};

}  // namespace lockstep
