// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/replicas.h"

#include <torch/torch.h>

#include <algorithm>
#include <unordered_set>

#include "lockstep/data/shard.h"

namespace lockstep {
namespace {

Batch part_of_batch(const Batch& batch, Shard shard) {
  const auto rows = part_of({0, batch.samples()}, shard);
  Batch part;
  for (const auto& field : batch.fields) part.fields.push_back(field.narrow(0, rows.begin, rows.size()));
  part.ids.assign(batch.ids.begin() + rows.begin, batch.ids.begin() + rows.end);
  part.epoch = batch.epoch;
  part.index = batch.index;
  part.first_index = batch.first_index + rows.begin;
  part.global_samples = batch.global_samples;
  return part;
}

std::vector<std::size_t> distinct_places(const std::vector<at::Tensor>& tensors) {
  std::vector<std::size_t> places;
  std::unordered_set<const void*> seen;
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    if (seen.insert(tensors[k].unsafeGetTensorImpl()).second) places.push_back(k);
  }
  return places;
}

// While an object of this class lives, kernels called by this thread use this number of threads.
class KernelThreads {
 public:
  explicit KernelThreads(int count) : before_(at::get_num_threads()) { at::set_num_threads(count); }
  ~KernelThreads() { at::set_num_threads(before_); }
  KernelThreads(const KernelThreads&) = delete;
  KernelThreads& operator=(const KernelThreads&) = delete;

 private:
  int before_;
};

}  // namespace

Replicas::Replicas(Module& first, std::int64_t count, Precision precision)
    : parts_(static_cast<std::size_t>(count)),
      precision_(precision),
      threads_each_(std::max(1, at::get_num_threads() / static_cast<int>(count))),
      start_(count),
      done_(count) {
  for (auto& part : parts_) {
    if (&part != &parts_.front()) part.owned = first.replica();
    part.module = part.owned ? part.owned.get() : &first;
    part.parameters = part.module->parameters();
    part.distinct = distinct_places(part.parameters);
    part.buffers = part.module->buffers();
  }
  for (std::size_t i = 1; i < parts_.size(); ++i) {
    threads_.emplace_back([this, i] {
      at::set_num_threads(threads_each_);
      while (true) {
        start_.arrive_and_wait();
        if (is_ending_) return;
        run_part(parts_[i]);
        done_.arrive_and_wait();
      }
    });
  }
}

Replicas::~Replicas() {
  is_ending_ = true;
  start_.arrive_and_wait();
}

// Lets all copies use the first copy's weights. This is done for each batch, since averages may have replaced the
// tensors meanwhile.
void Replicas::share_weights() {
  const torch::NoGradGuard no_grad;
  const auto& first = parts_.front();
  for (std::size_t i = 1; i < parts_.size(); ++i) {
    auto& part = parts_[i];
    for (std::size_t k = 0; k < first.parameters.size(); ++k) {
      part.parameters[k].set_data(first.parameters[k].data());
      part.parameters[k].set_requires_grad(first.parameters[k].requires_grad());
      part.parameters[k].mutable_grad().reset();
    }
    for (std::size_t k = 0; k < first.buffers.size(); ++k) part.buffers[k].copy_(first.buffers[k]);
    if (part.module->is_training() != first.module->is_training()) part.module->train(first.module->is_training());
  }
}

void Replicas::run_part(Part& part) const {
  part.loss_sum = 0;
  if (part.batch.samples() == 0) return;
  try {
    const auto samples = static_cast<double>(part.batch.samples());
    part.module->metrics().begin_batch(part.batch.samples());
    at::Tensor loss;
    {
      const AutocastScope autocast(precision_, part.parameters.at(0).device());
      loss = part.module->training_step(part.batch);
    }
    part.loss_sum = loss.item<double>() * samples;
    const auto weighed = loss * (samples / static_cast<double>(global_samples_));
    (scaler_ != nullptr ? scaler_->scaled(weighed) : weighed).backward();
  } catch (...) {
    part.failure = std::current_exception();
  }
}

// Adds the gradients of all copies to the first copy's, always in the same order, so that sums are the same each time.
// A tied weight appears several times in the list but has one gradient, so it is added once.
void Replicas::add_gradients() {
  const torch::NoGradGuard no_grad;
  auto& first = parts_.front();
  for (std::size_t i = 1; i < parts_.size(); ++i) {
    for (const auto k : parts_[i].distinct) {
      const auto& gradient = parts_[i].parameters[k].grad();
      if (!gradient.defined()) continue;
      auto& sum = first.parameters[k].mutable_grad();
      if (sum.defined()) {
        sum.add_(gradient);
      } else {
        sum = gradient;
      }
    }
    first.module->metrics().take(parts_[i].module->metrics());
  }
}

double Replicas::run(const Batch& batch, std::int64_t global_samples, const LossScaler* scaler) {
  share_weights();
  global_samples_ = global_samples;
  scaler_ = scaler;
  const auto count = static_cast<int>(parts_.size());
  for (int i = 0; i < count; ++i) parts_[static_cast<std::size_t>(i)].batch = part_of_batch(batch, {i, count});
  start_.arrive_and_wait();
  {
    const KernelThreads threads(threads_each_);
    run_part(parts_.front());
  }
  done_.arrive_and_wait();
  double sum = 0;
  for (auto& part : parts_) {
    if (part.failure) std::rethrow_exception(std::exchange(part.failure, nullptr));
    sum += part.loss_sum;
  }
  add_gradients();
  return sum;
}

}  // namespace lockstep
