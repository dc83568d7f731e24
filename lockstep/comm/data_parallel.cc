// SPDX-License-Identifier: Apache-2.0
// How gradients become the mean over all samples. backward() weights this rank's mean loss by its samples, and runs
// autograd from the loss and the control tensor. c10d's reducer averages each bucket as soon as its gradients are
// there. With global_samples the weight contains the total. Otherwise the averaged gradients are divided by the mean
// number of samples, which the control tensor brings. A Round holds this for all batches of one step. Every rank must
// start the same all-reduces in the same order, so a rank without a loss starts from zero gradients. A parameter
// without a gradient leaves its bucket unfinished, and backward() throws with its name.
#include "lockstep/comm/data_parallel.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/comm.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/control_tensor.h"
#include "lockstep/comm/fixed_bucket_reducer.h"
#include "lockstep/comm/gradients_aside.h"
#include "lockstep/comm/group_impl.h"
#include "lockstep/comm/module_tensors.h"
#include "lockstep/comm/plain_backward.h"
#include "lockstep/comm/unreached_parameters.h"
#include "lockstep/comm/zero_gradients.h"

namespace lockstep {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

// The counts of one round, which ends when gradients are averaged. A round has one batch, or all accumulated batches.
struct Round {
  bool knows_total = false;         // The caller says how many samples all ranks bring.
  std::int64_t samples = 0;         // This rank's so far.
  double scale = 0;                 // Of what is added up in half precision: a gradient per sample is multiplied by it.
  std::vector<at::Tensor> earlier;  // Gradients from before, by parameter. Undefined if there were none.
};

}  // namespace

struct DistributedDataParallel::Impl {
  torch::nn::Module& module;
  Group& group;
  DataParallelOptions options;
  std::vector<NamedTensor> parameters;
  std::vector<at::Tensor> trained;
  ControlTensor control;                         ///< Undefined if there is no reducer.
  std::unique_ptr<CompressionHook> compression;  ///< Null if gradients are sent uncompressed.
  CompressionState compression_state;            ///< This rank's, to restore once there is a hook.
  std::unique_ptr<FixedBucketReducer> reducer;   ///< Null with one rank, and with a static graph before its first step.
  std::vector<NamedTensor> unused;               ///< Unused parameters of a static graph, which take no part.
  at::Tensor weight;                             ///< d(total)/d(loss), kept while its value stays the same.
  double weight_value = 0;
  std::optional<Round> round;
  ControlTensor::Signals raised{};
  ControlTensor::Signals seen{};
  bool is_syncing = true;
  bool is_recording = false;
  bool is_narrow = false;  ///< A parameter is in half precision, which cannot hold a number of samples.
  std::optional<PlainBackwardGuard> guard;  ///< None with one rank, and if the options permit a plain backward.

  Impl(torch::nn::Module& module_, Group& group_, DataParallelOptions options_)
      : module(module_), group(group_), options(std::move(options_)), parameters(trained_parameters(module_)) {
    for (const auto& each : parameters) trained.push_back(each.tensor);
    is_narrow = std::any_of(trained.begin(), trained.end(), [](const at::Tensor& each) {
      return each.scalar_type() == at::kHalf || each.scalar_type() == at::kBFloat16;
    });
  }

  void share_weights();
  void make_reducer();
  void leave_out_unused(const at::Tensor& loss);
  void require_unused() const;
  bool run(const at::Tensor& loss, double loss_weight);
  double weight_of(std::int64_t samples, std::optional<std::int64_t> global_samples);
  double weigh_narrowly(std::int64_t samples);
  void set_weight(const at::Tensor& loss, double value);
  void open_round(bool knows_total);
  void close_round(Round closing);
  void read_control();
  void raise_here(Signal signal) { raised[static_cast<std::size_t>(signal)] = true; }
};

void DistributedDataParallel::Impl::share_weights() {
  const torch::NoGradGuard no_grad;
  auto tensors = tensors_of(module.named_parameters());
  const auto buffers = tensors_of(module.named_buffers());
  tensors.insert(tensors.end(), buffers.begin(), buffers.end());
  if (tensors.empty()) return;
  auto& peers = group.impl();
  peers.talk("shared the weights", [&] { c10d::broadcast_coalesced(peers.process, tensors, 25 * kMiB, 0); });
}

void DistributedDataParallel::Impl::make_reducer() {
  // In the parameters' own type, the control tensor shares a bucket with them. A narrow type would round its counts,
  // and compression must not change them. Then it has another type, and so a bucket of its own.
  const auto type = trained[0].scalar_type();
  const bool compresses = options.compression.kind != Compression::kNone;
  const bool is_wide = type == at::kFloat || type == at::kDouble;
  const auto other = type == at::kFloat ? at::kDouble : at::kFloat;
  const auto control_options = trained[0].options().dtype(is_wide && !compresses ? type : other);
  control = ControlTensor(control_options);

  auto tensors = trained;
  tensors.push_back(control.leaf());
  if (options.layout && !fits(*options.layout, tensors)) options.layout.reset();
  const std::vector<bool> dense(tensors.size(), false);
  const auto cap = static_cast<std::int64_t>(options.bucket_mib * kMiB);
  const auto first_cap = std::min<std::int64_t>(cap, kMiB);
  BucketLayout buckets;
  if (options.layout) {
    buckets = *options.layout;
  } else {
    buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(
        tensors, {static_cast<std::size_t>(first_cap), static_cast<std::size_t>(cap)}, dense));
    std::reverse(buckets.begin(), buckets.end());
  }
  std::unordered_map<std::size_t, std::string> names;
  for (std::size_t i = 0; i < parameters.size(); ++i) names[i] = parameters[i].name;
  names[parameters.size()] = "lockstep.control";
  // Gradients become views of the buckets. Optimizer::zero_grad() detaches them in place, and would throw for a view
  // that autograd knows. So the views are made below autograd.
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const GradientsAside earlier(trained);
  reducer = made_reducer<FixedBucketReducer>(tensors, buckets, group.impl().process, dense, cap,
                                             options.find_unused_parameters,
                                             /*gradient_as_bucket_view=*/true, names, first_cap);
  reducer->disable_timing();
  if (options.layout) reducer->freeze_buckets();
  compression = make_compression_hook(options.compression, group.impl().process, tensors);
  if (!compression) return;
  compression->keep_whole(control.leaf());
  compression->restore(std::exchange(compression_state, {}));
  reducer->send_by(*compression);
}

// Ranks without samples have no autograd graph. Rank 0 has samples if any rank has, so its graph decides what is used.
void DistributedDataParallel::Impl::leave_out_unused(const at::Tensor& loss) {
  auto names = joined(loss.defined() ? unreached_parameters(parameters, loss) : std::vector<std::string>{}, "\n");
  const auto all = group.broadcast_text(names);
  if (!loss.defined()) names = all;
  require_same_text(group, ErrorKind::kUsage, "the list of parameters that the loss does not depend on", names,
                    "a static graph is the same on every rank: use find_unused_parameters instead");
  const auto left_out = split(all, '\n');
  const auto is_unused = [&](const NamedTensor& each) {
    return std::find(left_out.begin(), left_out.end(), each.name) != left_out.end();
  };
  std::copy_if(parameters.begin(), parameters.end(), std::back_inserter(unused), is_unused);
  std::erase_if(parameters, is_unused);
  trained.clear();
  for (const auto& each : parameters) trained.push_back(each.tensor);
}

void DistributedDataParallel::Impl::require_unused() const {
  for (const auto& each : unused) {
    if (!each.tensor.grad().defined()) continue;
    throw Error(ErrorKind::kUsage, "the loss depends on " + each.name + ", and did not in the first step",
                "a static graph is the same in every step: use find_unused_parameters instead");
  }
}

double DistributedDataParallel::Impl::weight_of(std::int64_t samples, std::optional<std::int64_t> global_samples) {
  if (is_narrow && !global_samples) return weigh_narrowly(samples);
  const auto own = static_cast<double>(samples);
  return global_samples ? own * (static_cast<double>(group.world()) / static_cast<double>(*global_samples)) : own;
}

// In half precision each gradient is kept as a mean: over this rank's samples so far, and at the round's end over those
// of all ranks. So no weight exceeds the number of ranks. Scales the gradients added up before, and returns the weight
// of the next loss.
double DistributedDataParallel::Impl::weigh_narrowly(std::int64_t samples) {
  double mean = static_cast<double>(round->samples);
  if (is_syncing && group.is_connected()) {
    auto total = at::full({1}, round->samples, at::kLong);
    group.all_reduce_sum(total);
    mean = total.item<double>() / static_cast<double>(group.world());
  }
  const double scale = mean > 0 ? 1 / mean : 0;
  const double before = std::exchange(round->scale, scale);
  if (before > 0 && before != scale) {
    const torch::NoGradGuard no_grad;
    at::_foreach_mul_(gradients_of(trained), scale / before);
  }
  return static_cast<double>(samples) * scale;
}

// The weight is written in place if possible, since a recorded step reads it at the same address.
void DistributedDataParallel::Impl::set_weight(const at::Tensor& loss, double value) {
  const bool fits = weight.defined() && weight.sizes() == loss.sizes() && weight.dtype() == loss.dtype();
  if (fits && weight_value == value) return;
  if (fits) {
    weight.fill_(value);
  } else {
    weight = at::full(loss.sizes(), value, loss.options().requires_grad(false));
  }
  weight_value = value;
}

// Returns true if every bucket was averaged. On a rank without a loss, each parameter's gradient starts as zeros, so
// that its peers' all-reduces find their partner. If unused parameters are searched, such a rank counts as using none,
// and the reducer sends zeros.
bool DistributedDataParallel::Impl::run(const at::Tensor& loss, double loss_weight) {
  std::vector<at::Tensor> roots;
  std::vector<at::Tensor> gradients;
  if (loss.defined()) {
    set_weight(loss, loss_weight);
    roots.push_back(loss);
    gradients.push_back(weight);
  } else if (!options.find_unused_parameters) {
    for (const auto& each : trained) {
      roots.push_back(each);
      gradients.push_back(at::zeros_like(each));
    }
  }
  if (reducer && is_syncing) {
    if (compression) compression->begin_step();
    // The search for unused parameters walks from outputs to leaves. So its output must not be the leaf itself.
    const auto& leaf = control.leaf();
    roots.push_back(options.find_unused_parameters ? leaf.view_as(leaf) : leaf);
    gradients.push_back(control.gradient());
    leaf.mutable_grad().reset();
    reducer->prepare_for_backward(options.find_unused_parameters ? roots : std::vector<at::Tensor>{});
  }
  // Backward also runs the model's own code, which may throw any exception. So only its type shows a lost peer.
  std::optional<ZeroGradients> zeros;
  if (loss.defined() && loss_weight == 0) zeros.emplace(trained);
  try {
    const AveragedBackward averaged;
    torch::autograd::backward(roots, gradients);
  } catch (const std::exception& error) {
    if (!is_of_transport(error)) throw;
    group.impl().lose_peer("averaged gradients", error);
  }
  return !reducer || !is_syncing || reducer->all_buckets_were_ready();
}

// Gradients of a round whose total is unknown are weighed by samples and scaled at its end. Gradients from before the
// round are scaled already, so they are set aside until then. A loop that resets its gradients has none.
void DistributedDataParallel::Impl::open_round(bool knows_total) {
  if (round) {
    if (round->knows_total == knows_total) return;
    throw Error(ErrorKind::kUsage, "global_samples is given for some of the batches that make one step, not for others",
                "give it for each of them, or for none");
  }
  round.emplace();
  round->knows_total = knows_total;
  const auto has_gradient = [](const at::Tensor& each) { return each.grad().defined(); };
  if (knows_total || std::none_of(trained.begin(), trained.end(), has_gradient)) return;
  const torch::NoGradGuard no_grad;
  for (const auto& each : trained) {
    round->earlier.push_back(has_gradient(each) ? each.grad().clone() : at::Tensor());
    if (has_gradient(each)) each.mutable_grad().zero_();
  }
}

void DistributedDataParallel::Impl::close_round(Round closing) {
  if (closing.knows_total) return;
  const torch::NoGradGuard no_grad;
  if (reducer && !control.leaf().is_cpu() && !is_narrow) {
    const auto mean = control.mean_samples_there();
    at::_foreach_mul_(gradients_of(trained), at::where(mean > 0, mean.reciprocal(), at::ones_like(mean)));
  } else if (!is_narrow) {
    const double mean = reducer ? control.mean_samples() : static_cast<double>(closing.samples);
    if (mean > 0) at::_foreach_mul_(gradients_of(trained), 1.0 / mean);
  }
  for (std::size_t i = 0; i < closing.earlier.size(); ++i) {
    if (closing.earlier[i].defined()) trained[i].mutable_grad().add_(closing.earlier[i]);
  }
}

// A collective on a device can fail while the host goes on. So the values are used only after a check for failures.
void DistributedDataParallel::Impl::read_control() {
  seen = reducer ? control.read(group.watch()) : raised;
  if (auto& stop = group.impl().stop) stop->is_agreed |= seen[static_cast<std::size_t>(Signal::kStop)];
  group.require_sound();
  raised = {};
}

DistributedDataParallel::DistributedDataParallel(torch::nn::Module& module, Group& group, DataParallelOptions options)
    : impl_(std::make_unique<Impl>(module, group, std::move(options))) {
  if (impl_->trained.empty()) {
    throw Error(ErrorKind::kUsage, "the module has no parameter that requires a gradient",
                "register its layers with register_module(), or unfreeze some");
  }
  if (impl_->options.static_graph && impl_->options.find_unused_parameters) {
    throw Error(ErrorKind::kUsage, "static_graph and find_unused_parameters are both set",
                "choose the first if the same parameters are unused in every step, else the second");
  }
  const auto& place = impl_->trained[0].device();
  if (group.is_connected() && place.type() != c10::kCPU && place != group.device().device) {
    throw Error(ErrorKind::kUsage,
                "the module is on " + place.str() + ", the ranks have joined for " + group.device().device.str(),
                "join with .accelerator = Accelerator::kGpu, and move the module to the group's device()");
  }
  if (!group.is_connected()) return;
  if (!impl_->options.are_weights_shared) {
    require_same_text(group, ErrorKind::kUsage, "the module", description(module),
                      "build the module from the same settings on every rank");
    impl_->share_weights();
  }
  group.impl().has_parallel = true;
  if (!impl_->options.permits_plain_backward) impl_->guard.emplace(impl_->parameters);
  if (!impl_->options.static_graph) impl_->make_reducer();
}

DistributedDataParallel::~DistributedDataParallel() = default;
DistributedDataParallel::Held DistributedDataParallel::no_sync() { return {impl_->is_syncing, false}; }

void DistributedDataParallel::backward(const at::Tensor& loss, std::int64_t samples,
                                       std::optional<std::int64_t> global_samples) {
  auto& s = *impl_;
  if (loss.defined() && loss.numel() != 1) {
    throw Error(ErrorKind::kUsage, "the loss has " + std::to_string(loss.numel()) + " numbers, want 1",
                "take its mean over the batch");
  }
  if (!loss.defined() && samples > 0) {
    throw Error(ErrorKind::kUsage, "a loss is missing for " + std::to_string(samples) + " samples",
                "pass their mean loss; a rank without samples passes an undefined loss and 0");
  }
  s.open_round(global_samples.has_value());
  s.round->samples += samples;
  const double weight = s.weight_of(samples, global_samples);
  if (s.options.static_graph && !s.reducer && s.is_syncing && s.group.is_connected()) {
    s.leave_out_unused(loss);
    s.make_reducer();
  }
  const bool averages = s.reducer && s.is_syncing;
  const auto* stop = s.group.impl().stop.get();
  if (averages && stop != nullptr && stop->is_asked()) s.raise_here(Signal::kStop);
  if (averages) s.control.write(s.raised, s.round->samples);
  if ((loss.defined() || averages) && !s.run(loss, weight)) {
    s.round.reset();
    const auto names = loss.defined() ? unreached_parameters(s.parameters, loss) : std::vector<std::string>{};
    throw Error(ErrorKind::kUsage,
                "the loss does not depend on " + (names.empty() ? "some parameters" : joined(names, ", ")),
                "use them, freeze them with requires_grad_(false), or set find_unused_parameters");
  }
  s.require_unused();
  if (!s.is_syncing) return;
  s.close_round(*std::exchange(s.round, std::nullopt));
  if (s.is_recording) return;
  s.read_control();
  if (s.reducer && s.reducer->should_rebuild_buckets() && !s.options.find_unused_parameters) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    s.group.impl().talk("agreed on buckets", [&] { s.reducer->rebuild_buckets(); });
  }
}

DistributedDataParallel::Held DistributedDataParallel::recording() { return {impl_->is_recording, true}; }

void DistributedDataParallel::begin_replay(std::int64_t samples, std::int64_t global_samples) {
  if (impl_->reducer) impl_->control.write(impl_->raised, samples);
  LOCKSTEP_ASSERT(impl_->weight.defined());
  impl_->set_weight(impl_->weight, impl_->weight_of(samples, global_samples));
}

void DistributedDataParallel::end_replay() { impl_->read_control(); }

void DistributedDataParallel::raise(Signal signal) { impl_->raise_here(signal); }

bool DistributedDataParallel::agreed(Signal signal) const { return impl_->seen[static_cast<std::size_t>(signal)]; }

bool DistributedDataParallel::agree_now(Signal signal, bool raised) {
  auto flag = at::zeros({1}, at::kLong);
  *flag.data_ptr<std::int64_t>() = raised ? 1 : 0;
  impl_->group.all_reduce_sum(flag);
  const bool any = *flag.const_data_ptr<std::int64_t>() > 0;
  impl_->seen[static_cast<std::size_t>(signal)] = any;
  return any;
}

void DistributedDataParallel::broadcast_buffers() {
  auto buffers = tensors_of(impl_->module.named_buffers());
  if (!impl_->reducer || buffers.empty()) return;
  const torch::NoGradGuard no_grad;
  auto& peers = impl_->group.impl();
  peers.talk("shared buffers", [&] { c10d::broadcast_coalesced(peers.process, buffers, 25 * kMiB, 0); });
}

std::map<std::string, at::Tensor> DistributedDataParallel::compression_state() {
  auto& peers = impl_->group.impl();
  const auto own = impl_->compression ? impl_->compression->state() : impl_->compression_state;
  if (!impl_->group.is_connected()) return gather_compression(own, nullptr);
  return peers.talk("gathered what compression left out", [&] { return gather_compression(own, peers.process.get()); });
}

void DistributedDataParallel::restore_compression(const std::map<std::string, at::Tensor>& state) {
  const auto& group = impl_->group;
  CompressionState own;
  for (const auto& [name, tensor] : state) own[name] = own_compression(name, tensor, group.rank(), group.world());
  if (impl_->compression) return impl_->compression->restore(own);
  own.merge(std::exchange(impl_->compression_state, {}));
  impl_->compression_state = std::move(own);
}

BucketLayout DistributedDataParallel::layout() const {
  return impl_->reducer ? impl_->reducer->layout() : BucketLayout{};
}

}  // namespace lockstep
