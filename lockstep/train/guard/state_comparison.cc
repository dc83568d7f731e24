// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/guard/state_comparison.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "lockstep/base/checksum.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/system_files.h"
#include "lockstep/snapshot/optimizer_state.h"

namespace lockstep {
namespace {

// The first comparison is made after few steps. It finds a rank that began with another state, and measures how long a
// comparison takes.
constexpr std::int64_t kFirst = 10;
constexpr double kShareOfTime = 0.01;
constexpr std::int64_t kLongest = 10'000;
constexpr std::size_t kMostNamed = 8;

// Returns the numbers of a tensor in the order of memory, whatever its shape and strides are.
at::Tensor flat(const at::Tensor& tensor) {
  const auto plain = tensor.detach();
  if (!plain.is_non_overlapping_and_dense()) return plain.contiguous().view({-1});
  return plain.as_strided({plain.numel()}, {1});
}

at::ScalarType integer_of(std::size_t bytes) {
  if (bytes == 8) return at::kLong;
  if (bytes == 4) return at::kInt;
  return bytes == 2 ? at::kShort : at::kByte;
}

std::int64_t hash_of(const at::Tensor& tensor) {
  const auto numbers = flat(tensor);
  return static_cast<std::int64_t>(
      xxh3_64(std::span(static_cast<const std::byte*>(numbers.const_data_ptr()), numbers.nbytes())));
}

// Adds up the tensor's words as integers, modulo 2^64. A flipped bit changes one word, and so the sum.
at::Tensor device_sum(const at::Tensor& tensor) {
  const auto numbers = flat(tensor);
  return numbers.view(integer_of(numbers.element_size())).sum(at::kLong);
}

std::string counted(std::size_t count, const std::string& one) {
  return std::to_string(count) + " " + one + (count == 1 ? "" : "s");
}

// Returns the ranks of the largest group with the same number. If two groups are equally large, it is the group with
// the lowest rank.
std::vector<int> majority(const std::vector<std::int64_t>& of_ranks) {
  std::map<std::int64_t, std::vector<int>> groups;
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) groups[of_ranks[rank]].push_back(static_cast<int>(rank));
  const auto smaller = [](const auto& a, const auto& b) {
    if (a.second.size() != b.second.size()) return a.second.size() < b.second.size();
    return a.second.front() > b.second.front();
  };
  return std::ranges::max_element(groups, smaller)->second;
}

}  // namespace

std::vector<std::int64_t> bit_sums(const std::vector<at::Tensor>& tensors) {
  const torch::NoGradGuard no_grad;
  std::vector<std::int64_t> out(tensors.size());
  std::vector<at::Tensor> there;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].is_cpu()) {
      out[i] = hash_of(tensors[i]);
    } else if (tensors[i].numel() > 0) {
      there.push_back(device_sum(tensors[i]));
      places.push_back(i);
    }
  }
  if (there.empty()) return out;
  const auto host = at::stack(there).to(at::kCPU);
  for (std::size_t i = 0; i < places.size(); ++i) out[places[i]] = host.const_data_ptr<std::int64_t>()[i];
  return out;
}

StateComparison::StateComparison(torch::nn::Module& module, torch::optim::Optimizer& optimizer, Group& group,
                                 const ComparisonOptions& options)
    : module_(module),
      optimizer_(optimizer),
      group_(group),
      options_(options),
      next_(options.every_steps < 0 ? kFirst : options.every_steps) {
  try {
    require_known_kind(optimizer);
  } catch (const Error&) {  // One of the user's own, with state of any kind: parameters alone are compared.
    is_optimizer_known_ = false;
  }
}

bool StateComparison::is_due(std::int64_t step) const {
  if (options_.every_steps == 0 || group_.world() == 1) return false;
  return options_.every_steps > 0 ? step % options_.every_steps == 0 : step >= next_;
}

void StateComparison::restart(std::int64_t step) {
  if (options_.every_steps < 0) next_ = step + kFirst;
}

std::int64_t StateComparison::steps_between(double comparison_seconds, double step_seconds) {
  if (step_seconds <= 0) return kLongest;
  const auto steps = std::ceil(comparison_seconds / (kShareOfTime * step_seconds));
  return std::clamp(static_cast<std::int64_t>(std::min(steps, 1e9)), kFirst, kLongest);
}

std::vector<StateComparison::Item> StateComparison::items() const {
  std::vector<Item> out;
  std::map<const void*, std::string> names;
  for (const auto& each : module_.named_parameters()) {
    if (names.emplace(each.value().unsafeGetTensorImpl(), each.key()).second) out.push_back({each.key(), each.value()});
  }
  if (!is_optimizer_known_) return out;
  for (auto& each : optimizer_tensors(optimizer_, names)) out.push_back({"the optimizer's " + each.name, each.tensor});
  return out;
}

std::string StateComparison::compare(std::int64_t step, double step_seconds) {
  if (options_.every_steps == 0 || group_.world() == 1) return {};
  // The sums wait for all steps that are queued on the device, and would not notice that a peer is lost.
  if (!group_.device().is_cpu()) group_.await_device();
  const auto start = Clock::now();
  const auto all = items();
  std::vector<at::Tensor> tensors;
  for (const auto& each : all) tensors.push_back(each.tensor);
  const auto own = bit_sums(tensors);
  const auto bytes = std::as_bytes(std::span(own));
  const auto of_ranks = group_.all_gather(static_cast<std::int64_t>(xxh3_64(bytes)));
  std::string healed;
  if (std::ranges::any_of(of_ranks, [&](auto each) { return each != of_ranks.front(); })) {
    healed = resolve(all, own, of_ranks, step);
  }
  same_at_ = step;
  if (options_.every_steps < 0) plan_next(step, seconds_between(start, Clock::now()), step_seconds);
  return healed;
}

// All ranks use the longest interval that any rank computed.
void StateComparison::plan_next(std::int64_t step, double seconds, double step_seconds) {
  const auto wishes = group_.all_gather(steps_between(seconds, step_seconds));
  next_ = step + std::ranges::max(wishes);
}

std::string StateComparison::resolve(const std::vector<Item>& all, const std::vector<std::int64_t>& own,
                                     const std::vector<std::int64_t>& of_ranks, std::int64_t step) {
  const auto counts = group_.all_gather(std::ssize(own));
  if (std::ranges::any_of(counts, [&](auto each) { return each != counts.front(); })) {
    throw Error(ErrorKind::kEnvironment,
                "ranks do not train the same after step " + std::to_string(step) + ": the optimizer of rank 0 holds " +
                    std::to_string(counts.front()) + " tensors, that of another rank more or fewer",
                "freeze, add and reset parameters on every rank alike");
  }
  const auto sound = majority(of_ranks);
  const bool is_known = sound.size() * 2 > of_ranks.size();
  const auto tensor = first_difference(all, own, sound.front());
  std::string odd;
  std::string hosts;
  std::size_t count = 0;
  for (int rank = 0; rank < group_.world(); ++rank) {
    if (std::ranges::find(sound, rank) != sound.end() && is_known) continue;
    if (++count > kMostNamed) continue;
    const auto host = group_.broadcast_text(host_name(), rank);
    odd += (odd.empty() ? "" : ", ") + std::to_string(rank) + " (" + host + ")";
    if ((hosts + ",").find(host + ",") == std::string::npos) hosts += (hosts.empty() ? "" : ",") + host;
  }
  if (count > kMostNamed) odd += " and " + std::to_string(count - kMostNamed) + " more";
  const auto since = same_at_ < 0 ? std::string() : "; all held the same after step " + std::to_string(same_at_);
  const std::string what = (count == 1 ? "rank " : "ranks ") + odd;
  if (!is_known) {
    throw Error(
        ErrorKind::kEnvironment,
        what + " do not hold the same state after step " + std::to_string(step) +
            ": the first tensor that differs is " + tensor + since,
        "no majority tells which rank is right; resume from the last snapshot, before which all were compared. "
        "If it happens again at once, something sets other weights on some ranks, such as a callback; else look "
        "for a node that computes wrongly, with `lockstep doctor`");
  }
  const auto fact = what + (count == 1 ? " holds" : " hold") + " other state than the other " +
                    counted(sound.size(), "rank") + " after step " + std::to_string(step) +
                    ": the first tensor that differs is " + tensor + since;
  if (options_.on_difference == OnDifference::kStop) {
    throw Error(ErrorKind::kEnvironment, fact,
                "its memory or device may be faulty: resume from the last snapshot, before which all were compared, "
                "without that node: --sbatch=--exclude=" +
                    hosts);
  }
  for (const auto& each : all) {
    auto shared = each.tensor.detach();
    auto whole = shared.is_contiguous() ? shared : shared.contiguous();
    group_.broadcast(whole, sound.front());
    if (!shared.is_contiguous()) shared.copy_(whole);
  }
  return fact + "; it took the state of rank " + std::to_string(sound.front());
}

// Rank `sound` has the right state. Each rank finds its first tensor that differs from it, and the message names the
// first of all.
std::string StateComparison::first_difference(const std::vector<Item>& all, const std::vector<std::int64_t>& own,
                                              int sound) const {
  auto right = at::tensor(at::ArrayRef<std::int64_t>(own), at::kLong);
  group_.broadcast(right, sound);
  const auto* wanted = right.const_data_ptr<std::int64_t>();
  const auto at = std::ranges::mismatch(own, std::span(wanted, own.size())).in1 - own.begin();
  const auto first = static_cast<std::size_t>(std::ranges::min(group_.all_gather(at)));
  return all.at(first).name;
}

}  // namespace lockstep
