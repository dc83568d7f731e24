// SPDX-License-Identifier: Apache-2.0
// How a record is laid out. The numbers come first, in the order of their members, then the bytes of each tensor. A
// record goes only from one process to another of the same program on the same machine. So numbers have the machine's
// own form. A text or tensor begins with its number of bytes.
#include "lockstep/train/sums/rank_part.h"

#include <torch/torch.h>

#include <cstring>
#include <string_view>
#include <type_traits>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

/// Counts the bytes that it is given, and also writes them if it was given memory.
class Writer {
 public:
  Writer() = default;
  explicit Writer(std::span<std::byte> out) : out_(out) {}

  void add(const void* data, std::size_t bytes) {
    if (!out_.empty()) std::memcpy(out_.subspan(at_, bytes).data(), data, bytes);
    at_ += bytes;
  }
  template <typename Number>
  void add(Number value) {
    static_assert(std::is_arithmetic_v<Number>);
    add(&value, sizeof value);
  }
  void add(std::string_view text) {
    add(static_cast<std::uint64_t>(text.size()));
    if (!text.empty()) add(text.data(), text.size());
  }
  std::size_t bytes() const { return at_; }

 private:
  std::span<std::byte> out_;
  std::size_t at_ = 0;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}

  std::span<const std::byte> take(std::size_t bytes) {
    if (in_.size() - at_ < bytes) throw Error(ErrorKind::kBug, "the record of a lost rank is cut short", "");
    at_ += bytes;
    return in_.subspan(at_ - bytes, bytes);
  }
  template <typename Number>
  Number number() {
    Number value{};
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text() {
    const auto bytes = take(number<std::uint64_t>());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  std::span<const std::byte> in_;
  std::size_t at_ = 0;
};

void write(const RankPart& part, const std::vector<at::Tensor>& buffers, Writer& out) {
  for (const auto* sum : {&part.losses.epoch, &part.losses.since_logged}) {
    out.add(sum->total);
    out.add(sum->samples);
  }
  for (const auto sum : part.digest.sums) out.add(sum);
  out.add(static_cast<std::uint64_t>(part.metrics.size()));
  for (const auto& [name, sum] : part.metrics) {
    out.add(std::string_view(name));
    out.add(sum.total);
    out.add(sum.samples);
  }
  out.add(static_cast<std::uint64_t>(part.numbers.size()));
  for (const auto& [name, value] : part.numbers) {
    out.add(std::string_view(name));
    out.add(value);
  }
  out.add(static_cast<std::uint64_t>(buffers.size()));
  for (const auto& each : buffers) {
    const auto flat = each.contiguous();
    out.add(static_cast<std::uint64_t>(flat.nbytes()));
    if (flat.nbytes() > 0) out.add(flat.const_data_ptr(), flat.nbytes());
  }
}

}  // namespace

std::size_t record_bytes(const RankPart& part, const std::vector<at::Tensor>& buffers) {
  Writer counter;
  write(part, buffers, counter);
  return counter.bytes();
}

void write_record(const RankPart& part, const std::vector<at::Tensor>& buffers, std::span<std::byte> out) {
  Writer writer(out);
  write(part, buffers, writer);
}

RankPart read_record(std::span<const std::byte> record, const std::vector<at::Tensor>& buffers) {
  Reader in(record);
  RankPart part;
  for (auto* sum : {&part.losses.epoch, &part.losses.since_logged}) {
    sum->total = in.number<double>();
    sum->samples = in.number<std::int64_t>();
  }
  for (auto& sum : part.digest.sums) sum = in.number<std::uint64_t>();
  for (auto left = in.number<std::uint64_t>(); left > 0; --left) {
    auto& sum = part.metrics[in.text()];
    sum.total = in.number<double>();
    sum.samples = in.number<std::int64_t>();
  }
  for (auto left = in.number<std::uint64_t>(); left > 0; --left) {
    const auto name = in.text();
    part.numbers[name] = in.number<double>();
  }
  const torch::NoGradGuard no_grad;
  const auto count = in.number<std::uint64_t>();
  if (count != buffers.size()) throw Error(ErrorKind::kBug, "the record of a lost rank is of another model", "");
  for (const auto& each : buffers) {
    const auto bytes = in.take(in.number<std::uint64_t>());
    if (bytes.size() != each.nbytes()) throw Error(ErrorKind::kBug, "the record of a lost rank has other buffers", "");
    auto flat = at::empty(each.sizes(), each.options().device(at::kCPU));
    if (!bytes.empty()) std::memcpy(flat.mutable_data_ptr(), bytes.data(), bytes.size());
    each.detach().copy_(flat);
  }
  return part;
}

}  // namespace lockstep
