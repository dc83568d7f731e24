// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/optim/optimizer.h"

#include <torch/torch.h>

#include <unordered_set>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using Tensors = std::vector<at::Tensor>;

at::Tensor value_of(const torch::optim::Optimizer::LossClosure& closure) {
  if (!closure) return {};
  const at::AutoGradMode with_grad(true);
  return closure();
}

// A momentum buffer starts as the first gradient. So parameters without a buffer need a separate call of the kernel.
struct SgdCall {
  Tensors parameters, gradients, buffers;

  void add(const at::Tensor& parameter) {
    parameters.push_back(parameter);
    gradients.push_back(parameter.grad());
  }
};

std::unique_ptr<torch::optim::OptimizerParamState> new_sgd_state(const at::Tensor& parameter) {
  auto state = std::make_unique<torch::optim::SGDParamState>();
  state->momentum_buffer(at::zeros_like(parameter, at::MemoryFormat::Preserve));
  return state;
}

// The arguments of one call of a fused Adam kernel. The kernel reads a step count for each parameter. All parameters of
// one call have taken the same number of steps, so they share one tensor for it.
template <typename State>
struct AdamCall {
  Tensors parameters, gradients, averages, squares, maxima;
  std::vector<State*> states;

  void add(const at::Tensor& parameter, State& state, bool amsgrad) {
    if (!state.exp_avg().defined()) {
      state.step(0);
      state.exp_avg(at::zeros_like(parameter, at::MemoryFormat::Preserve));
      state.exp_avg_sq(at::zeros_like(parameter, at::MemoryFormat::Preserve));
    }
    // The maximum is also missing if a run resumes with amsgrad newly switched on.
    if (amsgrad && !state.max_exp_avg_sq().defined()) state.max_exp_avg_sq(state.exp_avg_sq().clone());
    parameters.push_back(parameter);
    gradients.push_back(parameter.grad());
    averages.push_back(state.exp_avg());
    squares.push_back(state.exp_avg_sq());
    if (amsgrad) maxima.push_back(state.max_exp_avg_sq());
    states.push_back(&state);
  }

  // Increments the step count of every state, and returns the counts for the kernel.
  Tensors advanced_steps() {
    const auto step = states[0]->step() + 1;
    for (auto* state : states) state->step(step);
    return Tensors(states.size(), at::full({}, static_cast<double>(step), at::kFloat));
  }
};

// A parameter that was frozen for a while has taken fewer steps than others, so there is one call per count. `run` gets
// the number of steps of a call's parameters, if the host knows it.
template <typename State, typename StateMap, typename Run>
void for_each_adam_call(const torch::optim::OptimizerParamGroup& group, StateMap& states,
                        const DeviceCounts<State*>& counts, bool amsgrad, Run run) {
  std::map<std::pair<const void*, std::int64_t>, AdamCall<State>> calls;
  for (const auto& parameter : group.params()) {
    if (!parameter.grad().defined()) continue;
    auto& slot = states[parameter.unsafeGetTensorImpl()];
    if (!slot) slot = std::make_unique<State>();
    auto& state = static_cast<State&>(*slot);
    const auto count = counts.find(&state);
    const auto done = count || !state.exp_avg().defined() ? 0 : state.step();
    calls[{count.get(), done}].add(parameter, state, amsgrad);
  }
  for (auto& [key, call] : calls) run(call, key.second);
}

// Counts the step, and passes the counts to `kernel`. The counts are on the host or on the parameters' device, where
// they were before.
template <typename State, typename Kernel>
void run_counted(AdamCall<State>& call, std::int64_t done, DeviceCounts<State*>& counts, const DeviceUpdate& update,
                 Kernel kernel) {
  if (call.parameters[0].is_cpu() && !update.is_prepared()) {
    kernel(call, call.advanced_steps());
    return;
  }
  const auto options = call.parameters[0].options().dtype(at::kFloat).requires_grad(false);
  auto count = counts.shared(call.states, [&] { return at::full({}, static_cast<double>(done), options); });
  count->steps.add_(1);
  kernel(call, Tensors(call.states.size(), count->steps));
  if (const auto overflow = update.overflow()) count->steps.sub_(overflow->squeeze());
}

template <typename State>
void take_counts(const DeviceCounts<State*>& counts) {
  std::map<const void*, std::int64_t> read;
  for (const auto& [state, count] : counts.all()) {
    const auto [it, is_new] = read.try_emplace(count.get());
    if (is_new) it->second = static_cast<std::int64_t>(count->steps.template item<float>());
    state->step(it->second);
  }
}

// Adam and AdamW differ only in the kernel that they call.
template <typename Options, typename State, typename Groups, typename StateMap, typename Kernel>
void step_adam(Groups& groups, StateMap& states, DeviceCounts<State*>& counts, const DeviceUpdate& device,
               Kernel kernel) {
  const torch::NoGradGuard no_grad;
  std::size_t place = 0;
  for (auto& group : groups) {
    const auto& options = static_cast<const Options&>(group.options());
    const auto update = [&](auto& call, const Tensors& steps) {
      device.with_rate(place, options.lr(), [&](const auto& lr) {
        kernel(call.parameters, call.gradients, call.averages, call.squares, call.maxima, steps, lr,
               std::get<0>(options.betas()), std::get<1>(options.betas()), options.weight_decay(), options.eps(),
               options.amsgrad(), /*maximize=*/false, std::optional<at::Tensor>(), device.overflow());
      });
    };
    for_each_adam_call<State>(group, states, counts, options.amsgrad(),
                              [&](auto& call, std::int64_t done) { run_counted(call, done, counts, device, update); });
    ++place;
  }
}

// Tied weights appear twice in a module's parameters(), and would be updated twice.
Tensors without_repeats(Tensors parameters) {
  std::unordered_set<const void*> seen;
  std::erase_if(parameters, [&](const auto& each) { return !seen.insert(each.unsafeGetTensorImpl()).second; });
  return parameters;
}

}  // namespace

at::Tensor FusedSGD::step(LossClosure closure) {
  const auto loss = value_of(closure);
  const torch::NoGradGuard no_grad;
  std::size_t place = 0;
  for (auto& group : param_groups()) {
    const auto& options = static_cast<const torch::optim::SGDOptions&>(group.options());
    SgdCall first, later;
    for (const auto& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      if (options.momentum() == 0) {
        later.add(parameter);
        continue;
      }
      auto& slot = state_[parameter.unsafeGetTensorImpl()];
      auto& call = slot ? later : first;
      if (!slot) slot = new_sgd_state(parameter);
      call.buffers.push_back(static_cast<torch::optim::SGDParamState&>(*slot).momentum_buffer());
      call.add(parameter);
    }
    for (const auto* call : {&first, &later}) {
      if (call->parameters.empty()) continue;
      with_rate(place, options.lr(), [&](const auto& lr) {
        at::_fused_sgd_(call->parameters, call->gradients, call->buffers, options.weight_decay(), options.momentum(),
                        lr, options.dampening(), options.nesterov(), /*maximize=*/false,
                        /*is_first_step=*/call == &first, {}, overflow());
      });
    }
    ++place;
  }
  return loss;
}

at::Tensor FusedAdam::step(LossClosure closure) {
  const auto loss = value_of(closure);
  step_adam<torch::optim::AdamOptions>(param_groups(), state_, counts_, *this,
                                       [](const auto&... arguments) { at::_fused_adam_(arguments...); });
  return loss;
}

void FusedAdam::settle() { take_counts(counts_); }

at::Tensor FusedAdamW::step(LossClosure closure) {
  const auto loss = value_of(closure);
  step_adam<torch::optim::AdamWOptions>(param_groups(), state_, counts_, *this,
                                        [](const auto&... arguments) { at::_fused_adamw_(arguments...); });
  return loss;
}

void FusedAdamW::settle() { take_counts(counts_); }

std::unique_ptr<torch::optim::Optimizer> make_optimizer(Tensors all, const OptimizerSettings& s) {
  auto parameters = without_repeats(std::move(all));
  const auto adam_options = [&](auto options) {
    options.betas({s.betas[0], s.betas[1]}).eps(s.eps).weight_decay(s.weight_decay).amsgrad(s.amsgrad);
    return options;
  };
  try {
    if (s.name == "sgd") {
      auto options = torch::optim::SGDOptions(s.lr).momentum(s.momentum).dampening(s.dampening);
      options.weight_decay(s.weight_decay).nesterov(s.nesterov);
      return std::make_unique<FusedSGD>(std::move(parameters), options);
    }
    if (s.name == "adam")
      return std::make_unique<FusedAdam>(std::move(parameters), adam_options(torch::optim::AdamOptions(s.lr)));
    if (s.name == "adamw")
      return std::make_unique<FusedAdamW>(std::move(parameters), adam_options(torch::optim::AdamWOptions(s.lr)));
  } catch (const c10::Error& error) {
    throw Error(ErrorKind::kRecipe, std::string("[optimizer]: ") + error.what_without_backtrace());
  }
  throw Error(ErrorKind::kRecipe, "optimizer.name is '" + s.name + "', want sgd, adam or adamw");
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const std::vector<OptimizerGroup>& groups) {
  LOCKSTEP_ASSERT(!groups.empty());
  auto optimizer = make_optimizer(groups.front().parameters, groups.front().settings);
  for (std::size_t i = 1; i < groups.size(); ++i) {
    // The options of an optimizer's kind are known to that kind alone.
    const auto like = make_optimizer(groups[i].parameters, groups[i].settings);
    optimizer->add_param_group({groups[i].parameters, like->defaults().clone()});
  }
  return optimizer;
}

}  // namespace lockstep
