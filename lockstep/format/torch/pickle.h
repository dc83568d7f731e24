// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/format/torch/pickle_value.h"

namespace lockstep {

/// A pickle, read as a tree of plain values. Reading runs no code. A class or function is read as its name, and a call
/// as a record of the callee and the arguments. A name that the caller does not allow is an error.
class Pickle {
 public:
  /// A function that decides whether a pickle may contain the name "module.name".
  using NameRule = bool (*)(std::string_view name);

  /// Reads the first pickle of `bytes`, which must outlive the object. `name` is for messages. Protocols 2 to 5.
  ///
  /// Memory is bounded by the input's size (about 100 times, for a pickle of nothing but small values) and by
  /// kMostValues.
  /// Throws: Error(kData) with the byte, the value found and wanted, for a name that is not allowed (the message says
  /// which, and that nothing was run), an opcode that is unknown or of older protocols, or a pickle that is cut short.
  /// Source: Lib/pickletools.py of CPython, which describes every opcode.
  static Pickle read(std::span<const std::byte> bytes, const std::string& name, NameRule is_allowed);

  const PickleValue& root() const { return *root_; }
  /// Returns all values, in the order of the file, also those that cannot be reached from the root.
  const std::deque<PickleValue>& values() const { return values_; }
  /// Returns the bytes up to the pickle's end. Another pickle may follow.
  std::size_t size() const { return size_; }

  static constexpr std::size_t kMostValues = 2'000'000;

 private:
  friend class PickleReader;
  Pickle() = default;

  std::deque<PickleValue> values_;
  std::deque<std::string> texts_;
  const PickleValue* root_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace lockstep
