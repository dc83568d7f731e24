// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// Builds a pickle of protocol 2 out of what torch.load(weights_only=True) accepts. Values are put one after the other.
/// Those with parts are opened, filled and closed.
class PickleWriter {
 public:
  void none() { op('N'); }
  void flag(bool value) { op(value ? '\x88' : '\x89'); }
  void integer(std::int64_t value);
  void real(double value);
  /// `value` is UTF-8.
  void text(std::string_view value);
  /// Writes a class or function, such as "torch._utils", "_rebuild_tensor_v2".
  void global(std::string_view module, std::string_view name);

  void open_dict() { ops("}("); }
  void open_ordered_dict();
  /// After keys and values in turn.
  void close_dict() { op('u'); }

  void open_list() { ops("]("); }
  void close_list() { op('e'); }

  void open_tuple() { op('('); }
  void close_tuple() { op('t'); }
  void tuple(std::span<const std::int64_t> values);

  /// Writes, after a tuple, a reference to an object outside the pickle.
  void persistent() { op('Q'); }
  /// Writes, after a global and a tuple, the call of the one with the other.
  void call() { op('R'); }

  /// Ends the pickle and returns it. One value must have been put.
  std::string finished();

 private:
  void op(char code) { bytes_.push_back(code); }
  void ops(std::string_view codes) { bytes_ += codes; }
  template <typename Number>
  void number(Number value);

  std::string bytes_ = "\x80\x02";
};

}  // namespace lockstep
