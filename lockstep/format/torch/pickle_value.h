// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

enum class PickleKind {
  kNone,
  kBool,
  kInt,
  kBigInt,  ///< An integer beyond 64 bits. `text` has its bytes, the lowest first.
  kReal,
  kText,   ///< UTF-8.
  kBytes,  ///< Also Python 2's str, which is either.
  kList,
  kTuple,
  kSet,
  kDict,
  kGlobal,      ///< The name of a class or function, "module.name". It is only a name.
  kCall,        ///< The result of calling `callee` with `arguments`. Nothing was called.
  kPersistent,  ///< An object outside the pickle, which `arguments` identifies.
};

/// One value of a pickle. Its parts are values of the same Pickle. A part may be reached on several paths, also in a
/// cycle. So code that visits parts must limit the depth and the number of values.
struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  std::int64_t integer = 0;    ///< kInt, kBool.
  double real = 0;             ///< kReal.
  std::string_view text = {};  ///< kText, kBytes, kBigInt, kGlobal. Mostly a view of the pickle.
  /// The parts, for kList, kTuple and kSet. For kDict and kCall, keys and values that were set, in turn.
  std::vector<const PickleValue*> items = {};
  const PickleValue* callee = nullptr;     ///< For kCall, a kGlobal.
  const PickleValue* arguments = nullptr;  ///< For kCall a kTuple, for kPersistent any value.
  const PickleValue* state = nullptr;      ///< For kCall, the argument of __setstate__. Null if there is none.

  bool is_call_of(std::string_view name) const { return kind == PickleKind::kCall && callee->text == name; }
  /// True for kText, and for kBytes, since Python 2 wrote text as bytes.
  bool is_text() const { return kind == PickleKind::kText || kind == PickleKind::kBytes; }
};

/// Returns a text from a pickle in a form for messages, shortened and without control characters.
std::string pickle_text(std::string_view text);

/// Returns the result of `text.encode("latin1")` in Python. Nothing for text beyond Latin-1.
std::optional<std::string> latin1_of(std::string_view text);

/// Describes a value for messages, such as "a list" or "a call of torch.device".
std::string pickle_kind(const PickleValue& value);

/// Returns keys and values of a dict, or of a subclass of dict in Python, OrderedDict, defaultdict or Counter. Nothing
/// for other values.
using PickleEntries = std::vector<std::pair<const PickleValue*, const PickleValue*>>;
std::optional<PickleEntries> pickle_entries(const PickleValue& value);

/// Returns the value of a text key in a dict. Null if there is no such key, or if `value` is not a dict. If a key
/// occurs several times, the last one counts, as in Python.
const PickleValue* pickle_entry(const PickleValue& value, std::string_view key);

/// Returns argument `i` of a call, or part `i` of a tuple or list. Null if there are fewer parts.
const PickleValue* pickle_part(const PickleValue& value, std::size_t i);

}  // namespace lockstep
