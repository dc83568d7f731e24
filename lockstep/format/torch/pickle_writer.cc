// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/torch/pickle_writer.h"

#include <bit>
#include <limits>

#include "lockstep/base/error.h"

namespace lockstep {

template <typename Number>
void PickleWriter::number(Number value) {
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void PickleWriter::integer(std::int64_t value) {
  using Small = std::numeric_limits<std::int32_t>;
  if (value >= Small::min() && value <= Small::max()) {
    op('J');
    number(static_cast<std::int32_t>(value));
  } else {
    ops("\x8a\x08");
    number(value);
  }
}

void PickleWriter::real(double value) {
  op('G');
  number(__builtin_bswap64(std::bit_cast<std::uint64_t>(value)));
}

void PickleWriter::text(std::string_view value) {
  LOCKSTEP_ASSERT(value.size() <= std::numeric_limits<std::uint32_t>::max());
  op('X');
  number(static_cast<std::uint32_t>(value.size()));
  ops(value);
}

void PickleWriter::global(std::string_view module, std::string_view name) {
  op('c');
  ops(module);
  op('\n');
  ops(name);
  op('\n');
}

void PickleWriter::open_ordered_dict() {
  global("collections", "OrderedDict");
  ops(")R(");
}

void PickleWriter::tuple(std::span<const std::int64_t> values) {
  open_tuple();
  for (const auto value : values) integer(value);
  close_tuple();
}

std::string PickleWriter::finished() {
  op('.');
  return std::move(bytes_);
}

}  // namespace lockstep
