// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/plan/facts.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/text_format.h"

namespace lockstep {
namespace {

using nlohmann::json;

/// The list is empty if an earlier version printed the facts.
PassKernels kernels_of(const json& from, const std::string& pass) {
  return {.all = from.value(pass + "_kernels", 0.0), .products = from.value(pass + "_products", 0.0)};
}

/// The value is absent for one rank, on a device, and if an earlier version printed the facts.
std::optional<double> averaging_of(const json& from) {
  const auto found = from.find("averaging_s");
  return found == from.end() ? std::nullopt : std::optional(found->get<double>());
}

BatchCost batch_of(const json& from) {
  return {.samples = from.at("samples"),
          .forward_s = from.at("forward_s"),
          .backward_s = from.at("backward_s"),
          .update_s = from.at("update_s"),
          .averaging_s = averaging_of(from),
          .spread = from.at("spread"),
          .flops = from.at("flops"),
          .activation_bytes = from.at("activation_bytes"),
          .forward = kernels_of(from, "forward"),
          .backward = kernels_of(from, "backward")};
}

TrainingFacts read(const json& from) {
  TrainingFacts facts;
  facts.model = from.at("model");
  facts.precision = from.at("precision");
  facts.device = from.at("device");
  facts.ranks = from.at("ranks");
  facts.threads = from.at("threads");
  facts.cores = from.at("cores");
  facts.is_timed = from.at("is_timed");
  facts.parameters = from.at("parameters");
  facts.weight_bytes = from.at("weight_bytes");
  facts.gradient_bytes = from.at("gradient_bytes");
  facts.optimizer_bytes = from.at("optimizer_bytes");
  facts.buffer_bytes = from.at("buffer_bytes");
  facts.train_samples = from.at("train_samples");
  facts.validation_samples = from.at("validation_samples");
  facts.read_s = from.at("read_s");
  facts.workers = from.value("workers", facts.workers);
  facts.start_s = from.at("start_s");
  for (const auto& each : from.at("gradients")) {
    facts.gradients.push_back({.bytes = each.at("bytes"), .ready = each.at("ready")});
  }
  for (const auto& each : from.at("batches")) facts.batches.push_back(batch_of(each));
  for (const auto& each : from.at("reduces")) {
    facts.reduces.push_back({.bytes = each.at("bytes"), .seconds = each.at("seconds")});
  }
  std::ranges::sort(facts.batches, {}, &BatchCost::samples);
  std::ranges::sort(facts.reduces, {}, &ReduceCost::bytes);
  return facts;
}

}  // namespace

TrainingFacts facts_of_json(std::string_view text, const std::string& from) {
  const std::string hint = "`lockstep-train describe RECIPE` prints it";
  try {
    auto facts = read(json::parse(last_line(text)));
    if (!facts.batches.empty() && facts.train_samples > 0) return facts;
  } catch (const json::exception& error) {
    throw Error(ErrorKind::kData, from + " does not describe a training: " + error.what(), hint);
  }
  throw Error(ErrorKind::kData, from + " describes a training without a batch or without samples", hint);
}

BatchCost cost_at(const TrainingFacts& facts, double samples) {
  LOCKSTEP_ASSERT(!facts.batches.empty());
  const auto& all = facts.batches;
  auto above =
      std::ranges::find_if(all, [&](const auto& each) { return static_cast<double>(each.samples) >= samples; });
  if (above == all.end()) --above;
  // One measured batch does not show a step's fixed cost, so the cost is taken as proportional.
  const BatchCost none;
  const bool is_single = all.size() == 1;
  if (above == all.begin() && !is_single) ++above;
  const auto& high = *above;
  const auto& low = is_single ? none : *(above - 1);
  const double share = (samples - static_cast<double>(low.samples)) / static_cast<double>(high.samples - low.samples);
  std::optional<double> averaging = high.averaging_s;
  if (averaging && low.averaging_s) {
    averaging = std::max(0.0, *low.averaging_s + share * (*averaging - *low.averaging_s));
  }
  const auto between = [share](double a, double b) { return std::max(0.0, a + share * (b - a)); };
  return {.samples = static_cast<std::int64_t>(samples),
          .forward_s = between(low.forward_s, high.forward_s),
          .backward_s = between(low.backward_s, high.backward_s),
          .update_s = is_single ? high.update_s : between(low.update_s, high.update_s),
          .averaging_s = averaging,
          .spread = is_single ? high.spread : between(low.spread, high.spread),
          .flops = between(low.flops, high.flops),
          .activation_bytes = between(low.activation_bytes, high.activation_bytes),
          .forward = high.forward,
          .backward = high.backward};
}

}  // namespace lockstep
