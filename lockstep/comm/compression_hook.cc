// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/compression_hook.h"

#include <torch/torch.h>

#include <algorithm>

#include "lockstep/base/checksum.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

struct NamedCompression {
  std::string_view name;
  Compression value;
};

constexpr std::array<NamedCompression, 4> kNames = {{{"none", Compression::kNone},
                                                     {"fp16", Compression::kFp16},
                                                     {"bf16", Compression::kBf16},
                                                     {"powersgd", Compression::kPowerSgd}}};

class RoundingHook final : public CompressionHook {
 public:
  RoundingHook(c10::intrusive_ptr<c10d::ProcessGroup> process, at::ScalarType type)
      : CompressionHook(std::move(process)), type_(type) {}

 private:
  // Gradients are divided by the number of ranks before the sum. So the sum stays in the range of the narrow type,
  // however many ranks there are.
  std::pair<at::Tensor, Finish> compressed(c10d::GradBucket& bucket) override {
    const auto buffer = bucket.getBuffer();
    return {buffer.to(type_).div_(world()), [buffer](const at::Tensor& sums) { buffer.copy_(sums); }};
  }

  at::ScalarType type_;
};

// Replaces the columns by an orthonormal basis of their span, in place. A gradient matrix often has a lower rank than
// requested. Householder's method still returns orthonormal columns then, while Gram-Schmidt's would return noise.
void orthogonalise(const at::Tensor& matrix) {
  constexpr double kTiny = 1e-30;
  if (matrix.size(1) == 1) {
    matrix.div_(matrix.norm().clamp_min_(kTiny));
  } else {
    matrix.copy_(std::get<0>(at::linalg_qr(matrix)));
  }
}

// Returns pseudorandom numbers in (-1, 1). They depend only on the seed, the parameter and the element's index, so
// every rank gets the same.
at::Tensor first_columns(std::uint64_t seed, std::size_t parameter, std::int64_t rows, std::int64_t columns) {
  auto out = at::empty({rows, columns}, at::kDouble);
  const auto key = mixed(seed, parameter);
  auto* numbers = out.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    constexpr double kScale = 1.0 / static_cast<double>(std::uint64_t{1} << 52U);
    numbers[i] = static_cast<double>(mixed(key, static_cast<std::uint64_t>(i)) >> 11U) * kScale - 1;
  }
  return out;
}

// Source: Vogels, Karimireddy, Jaggi: PowerSGD (NeurIPS 2019), Algorithm 1 and 2, with warm start and error feedback.
class PowerSgdHook final : public CompressionHook {
 public:
  PowerSgdHook(c10::intrusive_ptr<c10d::ProcessGroup> process, const CompressionOptions& options,
               const std::vector<at::Tensor>& parameters)
      : CompressionHook(std::move(process)), options_(options) {
    for (std::size_t i = 0; i < parameters.size(); ++i) places_[parameters[i].unsafeGetTensorImpl()] = i;
  }

  void begin_step() override { ++step_; }
  CompressionState state() override;
  void restore(const CompressionState& state) override;

 private:
  // The state of powersgd for one parameter. The product left * right^T approximates the parameter's gradient as a
  // matrix.
  struct Memory {
    at::Tensor right;
    at::Tensor error;
  };
  struct Part {
    at::Tensor matrix;
    Memory* memory = nullptr;
    at::Tensor left;  ///< A view of the numbers that are added up.
  };

  std::pair<at::Tensor, Finish> compressed(c10d::GradBucket& bucket) override;
  void finish(std::vector<Part> parts, const at::Tensor& sums);
  bool shrinks(const at::Tensor& matrix) const;
  Memory& memory_of(std::size_t place, const at::Tensor& matrix);
  std::int64_t rank_of(const at::Tensor& matrix) const {
    return std::min({options_.rank, matrix.size(0), matrix.size(1)});
  }

  CompressionOptions options_;
  std::map<const void*, std::size_t> places_;
  std::map<std::size_t, Memory> memories_;
  std::int64_t step_ = 0;
};

bool PowerSgdHook::shrinks(const at::Tensor& matrix) const {
  const auto sent = static_cast<double>((matrix.size(0) + matrix.size(1)) * rank_of(matrix));
  return sent * options_.min_rate < static_cast<double>(matrix.numel());
}

PowerSgdHook::Memory& PowerSgdHook::memory_of(std::size_t place, const at::Tensor& matrix) {
  auto& memory = memories_[place];
  // Restored state is on the CPU, and may come from a run with another compression_rank.
  if (!memory.right.defined() || memory.right.size(1) != rank_of(matrix)) {
    memory.right = first_columns(options_.seed, place, matrix.size(1), rank_of(matrix));
  }
  memory.right = memory.right.to(matrix.options());
  memory.error = memory.error.defined() ? memory.error.to(matrix.options()) : at::zeros_like(matrix);
  return memory;
}

// Sends the left matrices in one message, together with the tensors that are too small to compress.
std::pair<at::Tensor, CompressionHook::Finish> PowerSgdHook::compressed(c10d::GradBucket& bucket) {
  if (step_ <= options_.start_step) return uncompressed(bucket);
  std::vector<at::Tensor> whole;
  std::vector<Part> parts;
  std::int64_t numbers = 0;
  const auto gradients = bucket.getGradients();
  const auto parameters = bucket.getParameters();
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    auto matrix = gradients[i].dim() > 1 ? gradients[i].view({gradients[i].size(0), -1}) : gradients[i].view({-1, 1});
    if (!shrinks(matrix)) {
      whole.push_back(gradients[i]);
      numbers += gradients[i].numel();
      continue;
    }
    auto& memory = memory_of(places_.at(parameters[i].unsafeGetTensorImpl()), matrix);
    numbers += matrix.size(0) * rank_of(matrix);
    parts.push_back({matrix, &memory, {}});
  }
  auto sent = at::empty({numbers}, bucket.getBuffer().options());
  std::int64_t at = 0;
  for (const auto& each : whole) {
    sent.narrow(0, at, each.numel()).copy_(each.reshape({-1}));
    at += each.numel();
  }
  for (auto& part : parts) {
    part.matrix.add_(part.memory->error);
    orthogonalise(part.memory->right);
    const auto size = part.matrix.size(0) * rank_of(part.matrix);
    part.left = sent.narrow(0, at, size).view({part.matrix.size(0), -1});
    at::mm_out(part.left, part.matrix, part.memory->right);
    at += size;
  }
  return {sent, [this, whole = std::move(whole), parts = std::move(parts)](const at::Tensor& sums) {
            std::int64_t place = 0;
            for (const auto& each : whole) {
              each.copy_(sums.narrow(0, place, each.numel()).view(each.sizes())).div_(world());
              place += each.numel();
            }
            finish(parts, sums.narrow(0, place, sums.numel() - place));
          }};
}

void PowerSgdHook::finish(std::vector<Part> parts, const at::Tensor& sums) {
  if (parts.empty()) return;
  std::int64_t place = 0;
  std::vector<at::Tensor> rights;
  for (auto& part : parts) {
    part.left = sums.narrow(0, place, part.left.numel()).view(part.left.sizes());
    place += part.left.numel();
    // The sums need no division by the number of ranks, since only the span of their columns is used.
    orthogonalise(part.left);
    rights.push_back(part.matrix.t().mm(part.left).view({-1}));
  }
  auto flat = at::cat(rights).div_(world());
  add_up(flat)->wait();
  place = 0;
  for (auto& part : parts) {
    auto& memory = *part.memory;
    memory.right = flat.narrow(0, place, memory.right.numel()).view(memory.right.sizes()).clone();
    place += memory.right.numel();
    memory.error.copy_(part.matrix);
    at::mm_out(part.matrix, part.left, memory.right.t());
    memory.error.sub_(part.matrix);
  }
}

CompressionState PowerSgdHook::state() {
  CompressionState out;
  out["step"] = at::full({}, step_, at::kLong);
  for (const auto& [place, memory] : memories_) {
    out["right." + std::to_string(place)] = memory.right;
    out["error." + std::to_string(place)] = memory.error;
  }
  return out;
}

void PowerSgdHook::restore(const CompressionState& state) {
  if (state.empty()) memories_.clear();
  for (const auto& [name, tensor] : state) {
    if (name == "step") {
      step_ = tensor.item<std::int64_t>();
      continue;
    }
    const auto dot = name.find('.');
    auto& memory = memories_[static_cast<std::size_t>(std::stoull(name.substr(dot + 1)))];
    (name.starts_with("right.") ? memory.right : memory.error) = tensor.clone();
  }
}

}  // namespace

std::vector<std::string> compression_names() {
  std::vector<std::string> names;
  for (const auto& each : kNames) names.emplace_back(each.name);
  return names;
}

Compression compression_named(std::string_view name) {
  for (const auto& each : kNames) {
    if (each.name == name) return each.value;
  }
  throw Error(ErrorKind::kRecipe, "there is no compression '" + std::string(name) + "'",
              "choose one of " + joined(compression_names(), ", "));
}

std::unique_ptr<CompressionHook> make_compression_hook(const CompressionOptions& options,
                                                       c10::intrusive_ptr<c10d::ProcessGroup> process,
                                                       const std::vector<at::Tensor>& parameters) {
  if (options.kind == Compression::kNone) return nullptr;
  if (options.kind == Compression::kFp16) return std::make_unique<RoundingHook>(std::move(process), at::kHalf);
  if (options.kind == Compression::kBf16) return std::make_unique<RoundingHook>(std::move(process), at::kBFloat16);
  if (options.rank < 1) {
    throw Error(ErrorKind::kUsage, "powersgd's rank is " + std::to_string(options.rank) + ", want at least 1",
                "1 to 4 are usual");
  }
  // In the first step the reducer may still change its buckets. The state of powersgd belongs to a bucket, so
  // compression starts with the step after that.
  if (options.start_step < 2) {
    throw Error(ErrorKind::kUsage,
                "powersgd would start after " + std::to_string(options.start_step) + " steps, want at least 2",
                "a tenth of the run's steps is usual");
  }
  return std::make_unique<PowerSgdHook>(std::move(process), options, parameters);
}

std::pair<at::Tensor, CompressionHook::Finish> CompressionHook::uncompressed(c10d::GradBucket& bucket) const {
  const auto buffer = bucket.getBuffer();
  return {buffer, [buffer, ranks = process_->getSize()](const at::Tensor& sums) {
            if (!sums.is_same(buffer)) buffer.copy_(sums);
            buffer.div_(ranks);
          }};
}

c10::intrusive_ptr<c10d::Work> CompressionHook::add_up(const at::Tensor& tensor) {
  std::vector<at::Tensor> tensors = {tensor};
  return process_->allreduce(tensors);
}

c10::intrusive_ptr<c10::ivalue::Future> CompressionHook::runHook(c10d::GradBucket& bucket) {
  const torch::NoGradGuard no_grad;
  const auto parameters = bucket.getParameters();
  const bool is_whole =
      std::any_of(parameters.begin(), parameters.end(), [this](const auto& each) { return each.is_same(whole_); });
  auto [sent, finish] = is_whole ? uncompressed(bucket) : compressed(bucket);
  pending_.push_back({bucket.getBuffer(), std::move(finish)});
  return add_up(sent)->getFuture();
}

at::Tensor CompressionHook::parseHookResult(const c10::IValue& result) {
  const torch::NoGradGuard no_grad;
  auto pending = std::move(pending_.front());
  pending_.pop_front();
  pending.finish(c10d::detail::parseCppCommHookResult(result));
  return pending.buffer;
}

}  // namespace lockstep
