// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// Builds a pickle of protocol 2 from the few kinds of values that torch.load(weights_only=True) accepts. Values are
/// written one after the other. A value with parts, such as a dict, is opened, filled and closed.
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
  /// Ends a dict. Before this, write its keys and values in turn.
  void close_dict() { op('u'); }

  void open_list() { ops("]("); }
  void close_list() { op('e'); }

  void open_tuple() { op('('); }
  void close_tuple() { op('t'); }
  void tuple(std::span<const std::int64_t> values);

  /// Writes a reference to an object outside the pickle. The tuple written just before identifies the object.
  void persistent() { op('Q'); }
  /// Writes a call. Its function and its arguments are the global and the tuple written just before.
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
